"""Writes arrays of which nothing or a part was ever written, with every kind of chunk index.

usage: make_unwritten_files.py FOLDER
Writes earliest.h5 and latest.h5 into FOLDER. /gaps has the arrays, /values what h5py reads of each, written whole.
"""

import pathlib
import sys

import h5py
import numpy as np

folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)

# What create_dataset is told.
forms = {
    "contiguous": {},
    "single": {"chunks": (6, 50)},
    "fixed": {"chunks": (2, 7)},
    "fixed-gzip": {"chunks": (2, 7), "compression": "gzip", "shuffle": True},
    "fixed-pages": {"chunks": (1, 1), "shape": (6, 400)},
    "extensible": {"chunks": (2, 7), "maxshape": (None, 50)},
    "extensible-long": {"chunks": (1, 1), "shape": (3000, 1), "maxshape": (None, 1)},
    "tree": {"chunks": (2, 7), "maxshape": (None, None)},
    "tree-gzip": {"chunks": (2, 7), "maxshape": (None, None), "compression": "gzip"},
}
# Where something is written; the array is as large at least.
parts = {
    "nothing": None,
    "begin": np.s_[:2, :1],
    "middle": np.s_[2:4, :],
    "end": np.s_[-1:, -1:],
}
kinds = {"zero": ("<f8", None), "seven": ("<f8", 7.5), "nan": ("<f4", np.nan), "five": ("<i4", 5)}

for version in ["earliest", "latest"]:
    with h5py.File(folder / f"{version}.h5", "w", libver=version) as file:
        for form, options in forms.items():
            for part, place in parts.items():
                if form == "contiguous" and place is not None:
                    continue  # it is written whole, or not at all
                for kind, (dtype, fill) in kinds.items():
                    name = f"{form}_{part}_{kind}"
                    shape = options.get("shape", (6, 50))
                    data = file.create_dataset(f"gaps/{name}", dtype=dtype, fillvalue=fill, **{"shape": shape, **options})
                    if place is not None:
                        data[place] = 1 + np.arange(np.prod(shape)).reshape(shape)[place]
    with h5py.File(folder / f"{version}.h5", "r+") as file:
        gaps = {name: data[()] for name, data in file["gaps"].items()}
        for name, values in gaps.items():
            file.create_dataset(f"values/{name}", data=values)
