// Faults on purpose, for .ci/languages: the model of a device chooses one.
#include <stdlib.h>
#include <string.h>

#include "../wire.h"

// Loops, takes memory, or traps.
void hostile(bytes model) {
    if (same(model, text("hostile-loop"))) {
        for (volatile unsigned n = 0;; n++) {
        }
    }
    if (same(model, text("hostile-memory"))) {
        for (;;) memset(take(1 << 20), 1, 1 << 20);
    }
    if (same(model, text("hostile-trap"))) __builtin_trap();
}
