#pragma once

#include "app/gui/maps/map_picture.h"
#include "kernels/executor.h"

namespace foxscope::gui {

/// The scale that all sides of a picture share. @throws UsageError for limits that are none
figure::ScaledColours coloursOf(const MapPicture& picture, const Shading& shading);

/// Makes the picture's images from its values and colours. Its colours agree with figure::ScaledColours to within one
/// step of a channel.
/// @param executor  null: on the calling thread alone
void paint(MapPicture& picture, kernels::Executor* executor);

}  // namespace foxscope::gui
