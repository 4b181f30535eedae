"""From a workload and a machine to a prediction: the only room that knows all physics."""

from steptime.prediction.explain import Explanation, explain
from steptime.prediction.face import largest_batch, predict
from steptime.prediction.prediction import OperatorTimes, Prediction
from steptime.prediction.predictor import largest_batch_of, predict_request, predict_workload
from steptime.prediction.timeline import write_trace

__all__ = [
    "Explanation",
    "OperatorTimes",
    "Prediction",
    "explain",
    "largest_batch",
    "largest_batch_of",
    "predict",
    "predict_request",
    "predict_workload",
    "write_trace",
]
