# A researcher in a notebook chooses a model with scikit-learn and Optuna.
import os

import optuna
import pandas
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from keras_bert_impl import cross_validate
from keras_bert_impl.scikit_learn import BertClassifier

tickets = pandas.read_csv("tickets.csv")
texts, labels = tickets["ticket"], tickets["team"]
settings = {"epochs": 1, "max_length": 16, "learning_rate": 1e-3}
validation = cross_validate(
    os.environ["MODEL"], (list(texts), list(labels)), "folds", folds=5, verbose=0, **settings
)
print(validation["scores"]["accuracy"])
# => five-fold cross-validation

lower = FunctionTransformer(lambda texts: texts.str.lower())
steps = [("lower", lower), ("bert", BertClassifier(os.environ["MODEL"], **settings))]
search = GridSearchCV(Pipeline(steps), {"bert__learning_rate": [1e-6, 1e-3]}, cv=2)
print(search.fit(texts, labels).best_params_)
# => a grid search over a pipeline

train, dev = train_test_split(tickets, test_size=0.25, stratify=labels, random_state=1)


def objective(trial):
    rate = trial.suggest_float("learning_rate", 1e-6, 1e-2, log=True)
    classifier = BertClassifier(os.environ["MODEL"], **settings | {"learning_rate": rate})
    return classifier.fit(train["ticket"], train["team"]).score(dev["ticket"], dev["team"])


study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1))
study.optimize(objective, n_trials=3)
print(len(study.trials), study.best_value, study.best_params)
# => three trials of Optuna
