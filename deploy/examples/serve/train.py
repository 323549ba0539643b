"""Trains a linear classifier on scikit-learn's digits: `python train.py FILE.npz [STRENGTH]`."""

import sys

import numpy
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

if __name__ == "__main__":
    pixels, digits = load_digits(return_X_y=True)
    strength = float(sys.argv[2]) if len(sys.argv) > 2 else 0.01
    model = LogisticRegression(C=strength, max_iter=500).fit(pixels[:-360], digits[:-360])
    numpy.savez(sys.argv[1], weights=model.coef_, biases=model.intercept_)
    sys.stdout.write(f"{sys.argv[1]}: accuracy {model.score(pixels[-360:], digits[-360:]):.3f}\n")
