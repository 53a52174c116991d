#pragma once

#include <functional>

#include "backend/base/error.h"
#include "backend/file/hdf5/hdf5_object.h"
#include "backend/file/hdf5/hdf5_writer.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Writes what mixes the positions of each layer, and whether it decays, of a model whose layers are not all softmax
/// attention: as attributes of layers/NN below its group, and all names as its attribute `mixers`.
void write_mixers(Hdf5Writer& writer, const std::string& group, const TraceInfo& info);

/// Writes the window of each layer's attention, where they differ, as attributes of layers/NN, and the cap of logits,
/// where there is one.
void write_attention(Hdf5Writer& writer, const std::string& group, const TraceInfo& info);
/// Reads both: windows of layers that say nothing are the model's.
/// @throws Error naming the attribute
void read_attention(const Hdf5Object& model, TraceInfo& info);

using FaultyMixer = std::function<void(int layer, const Error& error)>;
/// Reads them into `mixers` and `forgetting`, where the model says so. The attribute `gated` applies to layers for
/// which nothing else says whether they forget.
/// @param info    layers, and heads where nothing is said of the layers, are set
/// @param faulty  if given, takes the error of each layer whose mixer cannot be read; another layer's stands for it,
///                and `mixers` stays empty where there is none
/// @throws Error naming the attribute
void read_mixers(const Hdf5Object& model, Hdf5Heap& heap, TraceInfo& info, const FaultyMixer& faulty = {});

}  // namespace foxscope
