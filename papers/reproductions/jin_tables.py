"""Jin, He & Dai, tables I and II: published accuracy in percent, at a claimed ε = 1 where there is noise."""

OWNERS = (1, 3, 5, 10, 20)  # of 60,000 records each
TABLES: dict[tuple[str, str, str], tuple[float | None, ...]] = {
    ("covtype7", "convex", "A0"): (56.24, 61.64, 61.90, 62.83, 64.10),
    ("covtype7", "convex", "A1"): (54.21, 58.22, 58.63, 59.82, 60.22),
    ("covtype7", "convex", "A2"): (None, 59.05, 59.22, 60.65, 61.23),
    ("covtype7", "strongly", "A0"): (62.79, 64.44, 65.31, 65.96, 66.04),
    ("covtype7", "strongly", "A1"): (50.60, 51.68, 52.60, 55.24, 57.73),
    ("covtype7", "strongly", "A2"): (None, 55.25, 59.27, 61.34, 62.37),
    ("mnist", "convex", "A0"): (77.74, 84.07, 85.49, 86.83, 87.69),
    ("mnist", "convex", "A1"): (63.86, 71.48, 74.04, 76.80, 78.17),
    ("mnist", "convex", "A2"): (None, 77.17, 79.87, 80.52, 81.93),
    ("mnist", "strongly", "A0"): (84.80, 88.13, 88.51, 88.76, 88.96),
    ("mnist", "strongly", "A1"): (55.04, 63.46, 65.63, 68.00, 73.90),
    ("mnist", "strongly", "A2"): (None, 71.03, 75.39, 80.93, 82.97),
}
