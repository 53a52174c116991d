"""Writes a run file again in the newest form of HDF5 (libver="latest"), with every kind of chunk index.

usage: make_newest_files.py GOOD.h5 FOLDER
Writes FOLDER/NAME.h5 for each form, and FOLDER/signatures.json: which blocks of the format each of them holds.
"""

import json
import pathlib
import sys

import h5py
import numpy as np

good, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
folder.mkdir(exist_ok=True)
signatures = {}


def last_unlimited(shape):
    return (*shape[:-1], None)


def rows(shape, length):
    return (1,) * (len(shape) - 1) + (min(length, shape[-1]),)


def panels(shape):
    return (*shape[:-1], min(50, shape[-1]))


# What create_dataset is told for an array of a shape.
forms = {
    "contiguous": lambda shape: {},
    "single": lambda shape: {"chunks": shape},
    "single-gzip": lambda shape: {"chunks": shape, "compression": "gzip", "shuffle": True},
    "implicit": lambda shape: {"chunks": panels(shape), "early": True},
    "fixed": lambda shape: {"chunks": panels(shape)},
    "fixed-gzip": lambda shape: {"chunks": rows(shape, 7), "compression": "gzip", "shuffle": True},
    "fixed-may-grow": lambda shape: {"chunks": rows(shape, 50), "maxshape": [2 * n + 1 for n in shape]},
    "fixed-pages": lambda shape: {"chunks": rows(shape, 1)},
    "fixed-pages-gzip": lambda shape: {"chunks": rows(shape, 1), "compression": "gzip"},
    "extensible": lambda shape: {"chunks": rows(shape, 1), "maxshape": (None, *shape[1:])},
    "extensible-last": lambda shape: {"chunks": rows(shape, 9), "maxshape": last_unlimited(shape)},
    "extensible-gzip": lambda shape: {"chunks": rows(shape, 1), "maxshape": last_unlimited(shape),
                                      "compression": "gzip", "shuffle": True},
    "tree": lambda shape: {"chunks": rows(shape, 2), "maxshape": (None,) * len(shape)},
    "tree-gzip": lambda shape: {"chunks": rows(shape, 2), "maxshape": (None,) * len(shape), "compression": "gzip"},
}


def same_bytes(old, new, name):
    """Copies a dataset whose type NumPy does not know (bfloat16), in one piece."""
    kind = old.id.get_type()
    data = np.empty(old.shape, "u2")
    old.id.read(h5py.h5s.ALL, h5py.h5s.ALL, data, kind)
    space = h5py.h5s.create_simple(old.shape)
    dataset = h5py.h5d.create(new.id, name.encode(), kind, space)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data, kind)
    return new[name]


def array(old, new, name, form):
    if old.id.get_type().get_size() == 2:
        return same_bytes(old, new, name)
    options = dict(forms[form](old.shape)) if old.shape and name not in ("query", "key") else {}
    if options.pop("early", False):
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        options["dcpl"] = plist
    return new.create_dataset(name, data=old[()], dtype=old.dtype, **options)


def rewrite(form, many):
    path = folder / f"{form}.h5"
    with h5py.File(good) as source, h5py.File(path, "w", libver="latest", track_order=many) as target:
        made = {}
        scales = []

        def remake(old, new):
            for key, value in old.attrs.items():
                if key not in ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME"):
                    new.attrs[key] = value
            if isinstance(old, h5py.Dataset):
                if old.is_scale:
                    new.make_scale(old.dims[0].label)
                for axis, dimension in enumerate(old.dims):
                    scales.extend((new, axis, scale.id) for scale in dimension.values())
                return
            for note in range(60 if many else 0):
                new.attrs[f"note{note}"] = note
            for key, child in old.items():
                known = made.get(child.id)
                if known is not None:
                    new[key] = known
                    continue
                made[child.id] = (new.create_group(key) if isinstance(child, h5py.Group)
                                  else array(child, new, key, form))
                remake(child, made[child.id])
            if old.name.startswith("/models/"):
                for note in range(700 if many else 0):
                    new.create_group(f"note{note}")

        remake(source, target)
        for dataset, axis, scale in scales:
            dataset.dims[axis].attach_scale(made[scale])
    content = path.read_bytes()
    known = "OHDR OCHK BTHD BTLF BTIN FRHP FHDB FHIB FAHD FADB EAHD EAIB EADB EASB"
    signatures[form] = [word for word in known.split() if word.encode() in content]


for name in forms:
    rewrite(name, many=name == "contiguous")
(folder / "signatures.json").write_text(json.dumps(signatures))
