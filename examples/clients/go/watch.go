package main

import (
	"context"
	"log"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	goten "mortise.local/proto/goten/types"
	mortise "mortise.local/proto/mortise/v1"
	resource "mortise.local/proto/pbresource"
)

// Everything asks for all artists of the namespace: from the token on, or with a snapshot.
func (c *client) everything(resumeToken string) *mortise.WatchResourcesRequest {
	return &mortise.WatchResourcesRequest{
		Type:         goten.WatchType_STATELESS,
		ResourceType: artistType,
		Tenancy:      c.id("").GetTenancy(),
		ResumeToken:  resumeToken,
	}
}

// Watch keeps the artists of the namespace, and calls show with their sorted names whenever they have changed, until it returns false. It
// survives cuts and restarts, and returns how often it resumed, and how often it had to begin anew.
func (c *client) watch(ctx context.Context, show func(names []string) bool) (resumed, reset int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	known, pending, shown := map[string]*resource.Resource{}, map[string]*resource.Resource{}, []string(nil)
	for token, wait := "", 100*time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		stream, err := c.watches.WatchResources(ctx, c.everything(token), grpc.WaitForReady(true))
		if token == "" {
			known = map[string]*resource.Resource{}
		}
		pending = maps.Clone(known)
		for first := token != ""; err == nil; first = false {
			var message *mortise.WatchResourcesResponse
			if message, err = stream.Recv(); err != nil {
				break
			}
			wait = 100 * time.Millisecond
			switch {
			case message.GetIsHardReset():
				token, pending = "", map[string]*resource.Resource{}
				if first {
					reset++
				}
			case message.GetIsSoftReset():
				pending = maps.Clone(known)
			case first:
				resumed++
			}
			for _, change := range message.GetChanges() {
				if current := change.GetCurrent().GetResource(); current != nil {
					pending[current.GetId().GetName()] = current
				} else {
					delete(pending, change.GetRemoved().GetName().GetName())
				}
			}
			if !message.GetIsCurrent() {
				continue
			}
			// The changes up to here belong together, and the token is behind them.
			known, token = maps.Clone(pending), message.GetResumeToken()
			names := slices.Sorted(maps.Keys(known))
			if slices.Equal(names, shown) {
				continue
			}
			shown = names
			if !show(names) {
				return resumed, reset
			}
		}
		switch status.Code(err) {
		case codes.Unavailable, codes.Aborted, codes.ResourceExhausted, codes.Internal, codes.Unknown:
			time.Sleep(wait)
		default:
			// Another attempt would end the same: the token is unknown, a permission is missing, the request is wrong.
			log.Fatal(err)
		}
	}
}
