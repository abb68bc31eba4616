// The version of the plugin. For .ci/languages, hostile/version.h takes the place of this file.
#pragma once

#include "wire.h"

#define VERSION "0.1.0"

// Does nothing. A plugin of your own has no such function.
static inline void hostile(bytes model) { (void)model; }
