#pragma once

#include "backend/eval/loss_file.h"
#include "backend/file/hdf5_writer.h"

namespace foxscope {

/// Writes what every file of windows of a corpus says of them: attributes of the root, and the documents' names and
/// hashes under /documents where there are any.
void write_corpus(Hdf5Writer& writer, const EvaluatedCorpus& corpus);

}  // namespace foxscope
