// Faults on purpose, for .ci/languages.
#pragma once

#include "../wire.h"

#define VERSION "0.2.0"

void hostile(bytes model);
