//! Stamps its version, 1.0.0, on what it mutates (metadata `mutated-by`) and validates (a warning); refuses what
//! another version mutated. Versions 1 and 2 are one plugin.

mortise_test_guests::stamping!("1.0.0");
