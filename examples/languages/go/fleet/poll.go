package fleet

import (
	"fmt"
	"strconv"

	"wit_component/mortise"
)

// The reconciler: called for each resource of the type when the server starts, whenever it changes, and now and then.
// Remembers how many addresses it has, and says in its status how it is polled.
func poll(ctx mortise.Context, request mortise.Request[Device]) error {
	key := "addresses/" + request.Name
	one, err := request.Read()
	if err != nil {
		return err
	}
	if one == nil {
		return ctx.Remove(key)
	}
	count := len(one.Data.Addresses)
	remembered, err := ctx.Get(key)
	if err != nil {
		return err
	}
	if text := strconv.Itoa(count); string(remembered) != text {
		if err := ctx.Set(key, []byte(text)); err != nil {
			return err
		}
	}
	polled := &mortise.Condition{Type: "Polled", State: mortise.False, Reason: "NoAddress", Message: "It has no address."}
	if count > 0 {
		message := fmt.Sprintf("%d addresses, every %d s.", count, one.Data.Interval)
		polled = &mortise.Condition{Type: "Polled", State: mortise.True, Reason: "Scheduled", Message: message}
	}
	written, err := request.WriteStatus(ctx, one, "poll", polled)
	if written {
		mortise.Info("polls " + request.Name)
	}
	return err
}
