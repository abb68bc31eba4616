// Package export_mortise_plugin_plugin hands over a call of the host.
package export_mortise_plugin_plugin

import (
	// Declares the plugin.
	_ "wit_component/fleet"
	"wit_component/mortise"
)

func Describe() []uint8 { return mortise.Describe() }
