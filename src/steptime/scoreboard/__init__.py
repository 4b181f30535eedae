"""Predictions against measurements that no fit has seen."""
