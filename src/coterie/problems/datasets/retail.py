"""Big Mart Sales and Black Friday: what a product sells for, or how much of it.

Nothing documents categories and ranges in full: lists are the values of the public files, ranges round
numbers above what is there, both written down as constants.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coterie.problems.datasets._encode import Category, Numeric, codes_of, encode
from coterie.problems.datasets._files import frame_of
from coterie.problems.datasets._table import Loaded
from coterie.problems.whose import Whose
from coterie.units import RECORD, Unit

OUTLETS = tuple(f"OUT{number:03d}" for number in (10, 13, 17, 18, 19, 27, 35, 45, 46, 49))

BIGMART = (
    Numeric("Item_Weight", 0, 25),
    Numeric("Item_Visibility", 0, 0.4),
    Numeric("Item_MRP", 0, 300),
    Numeric("Outlet_Establishment_Year", 1980, 2013),
    Category("Item_Fat_Content", ("low fat", "regular")),
    Category("Item_Type", ("Baking Goods", "Breads", "Breakfast", "Canned", "Dairy", "Frozen Foods",
                           "Fruits and Vegetables", "Hard Drinks", "Health and Hygiene", "Household", "Meat",
                           "Others", "Seafood", "Snack Foods", "Soft Drinks", "Starchy Foods")),
    Category("Outlet_Size", ("Small", "Medium", "High")),
    Category("Outlet_Location_Type", ("Tier 1", "Tier 2", "Tier 3")),
    Category("Outlet_Type", ("Grocery Store", "Supermarket Type1", "Supermarket Type2", "Supermarket Type3")),
)  # fmt: skip

_PRODUCTS = tuple(str(number) for number in range(1, 21))
BLACKFRIDAY = (
    Category("Gender", ("F", "M")),
    Category("Age", ("0-17", "18-25", "26-35", "36-45", "46-50", "51-55", "55+")),
    Category("Occupation", tuple(str(number) for number in range(21))),
    Category("City_Category", ("A", "B", "C")),
    Category("Stay_In_Current_City_Years", ("0", "1", "2", "3", "4+")),
    Category("Marital_Status", ("0", "1")),
    Category("Product_Category_1", _PRODUCTS),
    Category("Product_Category_2", _PRODUCTS),
    Category("Product_Category_3", _PRODUCTS),
)


def bigmart(folder: Path) -> Loaded:
    """Yearly sales of a product in an outlet, 8,523 pairs, owned by the outlet."""
    frame = frame_of(folder / "bigmart/Train.csv.gz")
    spellings = {"LF": "low fat", "Low Fat": "low fat", "reg": "regular", "Regular": "regular"}
    frame["Item_Fat_Content"] = frame["Item_Fat_Content"].replace(spellings)
    outlet = codes_of(frame["Outlet_Identifier"].to_numpy(), OUTLETS)
    sales = frame["Item_Outlet_Sales"].to_numpy()
    return Loaded(encode(frame, BIGMART), sales, owner=outlet, owner_names=OUTLETS)


def blackfriday(folder: Path, unit: Unit = RECORD) -> Loaded:
    """Amount of a purchase, the first 19,280 rows of the set: clustered by customer, not a random sample."""
    import pandas as pd

    frame = frame_of(folder / "blackfriday/BlackFriday_first19280.csv.gz", dtype=str)
    whose = Whose(pd.factorize(frame[unit.column])[0]) if unit.kind == "column" else None
    return Loaded(encode(frame, BLACKFRIDAY), frame["Purchase"].to_numpy(np.float64), whose=whose)
