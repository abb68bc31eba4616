package mortise

import types "wit_component/mortise_plugin_types"

// Diagnostics collects the diagnostics of a hook.
type Diagnostics struct {
	said []types.Diagnostic
}

// Error refuses the request. The path goes from the data down: names of fields, places in lists.
func (all *Diagnostics) Error(summary string, path ...any) { all.say(1, summary, path) }

// Warning travels back to the caller.
func (all *Diagnostics) Warning(summary string, path ...any) { all.say(2, summary, path) }

func (all *Diagnostics) say(severity uint8, summary string, path []any) {
	steps := []types.PathStep{}
	if len(path) > 0 {
		steps = append(steps, types.MakePathStepField("data"))
	}
	for _, one := range path {
		switch step := one.(type) {
		case string:
			steps = append(steps, types.MakePathStepField(step))
		case int:
			steps = append(steps, types.MakePathStepIndex(uint32(step)))
		}
	}
	all.said = append(all.said, types.Diagnostic{Severity: severity, Path: steps, Summary: summary})
}
