"""Eight owners learn on Adult who earns more than 50,000 dollars: python examples/adult.py adult.data adult.test"""

import sys
import tomllib
from pathlib import Path

import pandas as pd

import coterie

said = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
train, test = (pd.read_csv(file, names=said["order"], skipinitialspace=True, na_values="?", comment="|")
               .dropna() for file in sys.argv[1:3])  # fmt: skip
columns, classes = list(said["columns"]), ["<=50K", ">50K"]

private = coterie.CoterieClassifier(epsilon=1.0, bounds=said["columns"], classes=classes)
private.fit(train[columns], train["income"], owners=8)
private.model_.save("adult.safetensors")

model = coterie.load("adult.safetensors")
print(model.predict(test[columns])[:5])
print(
    f"accuracy {model.score(test[columns], test['income'].str.rstrip('.')):.4f}, at ε ≤ {private.privacy_.epsilon:.4g}"
)
print("\n".join(private.privacy_.promise))
