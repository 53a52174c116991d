#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/agent/fields.h"

namespace foxscope::agent {

/// Describes a path on a machine.
struct FileFacts {
  std::string kind;  ///< "file", "folder", or "other", such as a device
  std::int64_t bytes = 0;
  std::int64_t modified = 0;  ///< seconds since 1970
  std::string identity;       ///< tells it from a file that took its place
  /// An HDF5 file of Foxscope holds "runs", "maps" or what its @content says ("eval_loss"), a folder "checkpoint" or
  /// "training", and a text "text". Anything else holds "".
  std::string holds;
  std::string resolved;  ///< the path from / on
};

/// Entries of a folder, by name.
struct FolderList {
  std::string resolved;  ///< the folder's path from / on
  std::vector<std::string> names;
  std::vector<std::string> kinds;
  std::vector<std::int64_t> bytes;
  std::vector<std::int64_t> modified;
  std::vector<std::string> holds;
  bool more = false;  ///< there are more entries than were listed
};

/// A device that models run on.
struct DeviceFacts {
  std::string name;         ///< the word of --device: "cuda:0", "cpu"
  std::string title;        ///< "NVIDIA H200", "AMD EPYC 9654, 192 threads"
  std::int64_t memory = 0;  ///< bytes that a run may still take; 0: not known
};

template <typename Visit>
void fields(Visit& visit, DeviceFacts& facts) {
  visit("name", facts.name);
  visit("title", facts.title);
  visit("memory", facts.memory);
}

template <typename Visit>
void fields(Visit& visit, FileFacts& facts) {
  visit("kind", facts.kind);
  visit("bytes", facts.bytes);
  visit("modified", facts.modified);
  visit("identity", facts.identity);
  visit("holds", facts.holds);
  visit("resolved", facts.resolved);
}

template <typename Visit>
void fields(Visit& visit, FolderList& list) {
  visit("resolved", list.resolved);
  visit("names", list.names);
  visit("kinds", list.kinds);
  visit("bytes", list.bytes);
  visit("modified", list.modified);
  visit("holds", list.holds);
  visit("more", list.more);
}

}  // namespace foxscope::agent
