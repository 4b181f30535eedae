"""A performance model of deep learning on GPU servers."""
