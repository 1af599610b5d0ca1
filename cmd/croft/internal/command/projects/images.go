package projects

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft/internal/command/workspace"
	"github.com/croft-edge/croft/cmd/croft/internal/plan"
	"github.com/croft-edge/croft/cmd/croft/internal/registry"
)

// askRegistries is how many images are asked for at a time.
const askRegistries = 8

// hints joins hints, without empty ones.
func hints(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(one string) bool { return one == "" }), "; ")
}

// checkImages asks for the images of the containers that p would make. An image
// that its registry hasn't stops the plan: the running container would be taken down for
// it. An image that can't be checked from here is a hint; the node may reach further.
func checkImages(ctx context.Context, w *workspace.Workspace, p plan.Plan) {
	room := make(chan struct{}, askRegistries)
	var all sync.WaitGroup
	for i := range p.Changes {
		c := &p.Changes[i]
		wanted := w.File.Find(c.Name)
		if wanted == nil || c.Action != plan.Create && c.Action != plan.Replace && c.Action != plan.Update {
			continue
		}
		reference, secret := wanted.Image()
		if reference == "" {
			continue
		}
		auth := ""
		if secret != nil {
			text, err := secret.Open(w.Source)
			if err != nil {
				continue // carrying out the plan reports it
			}
			auth = text
		}
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			var missing *registry.MissingError
			switch err := registry.Check(ctx, reference, auth); {
			case errors.As(err, &missing):
				c.Action, c.Reason, c.Hint, c.LosesData, c.Stops = plan.Blocked, missing.Error()+" (--unchecked skips this check)", "", false, true
			case err != nil:
				c.Hint = hints(c.Hint, "its image isn't checked: "+err.Error())
			}
		})
	}
	all.Wait()
}
