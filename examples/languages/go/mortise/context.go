package mortise

import (
	"errors"
	"reflect"

	failures "wit_component/mortise_plugin_failures"
	kv "wit_component/mortise_plugin_kv"
	log "wit_component/mortise_plugin_log"
	resources "wit_component/mortise_plugin_resources"
	"wit_component/pb"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

const notFound = 5

// Context has the calls of a reconciler into the host.
type Context struct{ plugin string }

// Request is the resource to reconcile.
type Request[T any] struct {
	Name string
	id   []byte
}

func failure(one failures.Failure) error { return errors.New(one.Message) }

// Read returns the resource as it is stored now, or nil if it is gone.
func (request Request[T]) Read() (*Resource[T], error) {
	answer := resources.Read(request.id)
	if answer.IsErr() {
		if answer.Err().Code == notFound {
			return nil, nil
		}
		return nil, failure(answer.Err())
	}
	return read[T](answer.Ok())
}

// WriteStatus sets the status of a controller, unless it says the same already.
func (request Request[T]) WriteStatus(ctx Context, one *Resource[T], controller string, conditions ...*Condition) (bool, error) {
	key := ctx.plugin + "/" + controller
	if stored := one.rest.Status[key]; stored != nil &&
		stored.ObservedGeneration == one.rest.Generation && reflect.DeepEqual(stored.Conditions, conditions) {
		return false, nil
	}
	made := pb.Marshal(&status{ObservedGeneration: one.rest.Generation, Conditions: conditions})
	if answer := resources.WriteStatus(pb.Marshal(one.rest.ID), "", key, made); answer.IsErr() {
		return false, failure(answer.Err())
	}
	return true, nil
}

// Get reads one of the plugin's own values; nil if there is none.
func (Context) Get(key string) ([]byte, error) {
	answer := kv.Get(key)
	if answer.IsErr() {
		return nil, failure(answer.Err())
	}
	return answer.Ok().SomeOr(nil), nil
}

// Set sets one of the plugin's own values.
func (Context) Set(key string, value []byte) error {
	if answer := kv.Set(key, value); answer.IsErr() {
		return failure(answer.Err())
	}
	return nil
}

// Remove removes one of the plugin's own values, if it is there.
func (Context) Remove(key string) error {
	if answer := kv.Remove(key); answer.IsErr() {
		return failure(answer.Err())
	}
	return nil
}

// Info writes a line of the plugin's log.
func Info(message string) { log.Write(3, message, []wit.Tuple2[string, string]{}) }
