// Package export_mortise_plugin_controlling hands over a call of the host.
package export_mortise_plugin_controlling

import (
	wit "go.bytecodealliance.org/pkg/wit/types"

	"wit_component/mortise"
	controlling "wit_component/mortise_plugin_controlling"
)

func Reconcile(controller string, id []uint8) wit.Result[controlling.Outcome, string] {
	if err := mortise.Reconcile(controller, id); err != nil {
		return wit.Err[controlling.Outcome](err.Error())
	}
	return wit.Ok[controlling.Outcome, string](controlling.MakeOutcomeDone())
}
