package container

import (
	"context"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/mounts"
)

// mountPause is how long changes of the mount table wait for others.
const mountPause = 200 * time.Millisecond

// mountWatch tells of containers of which a mount is gone.
type mountWatch struct {
	// dir has a folder with the mounts of each container.
	dir string
	hub *changes.Hub
	// before are the mount points below dir, by the mounts' IDs.
	before map[uint64]string
}

// run tells until ctx is done.
func (w *mountWatch) run(ctx context.Context) error {
	return mounts.Watch(ctx, mountPause, w.look)
}

func (w *mountWatch) look() {
	all, err := mounts.ReadWithin(w.dir)
	if err != nil {
		w.hub.Lost()
		return
	}
	now := map[uint64]string{}
	for _, m := range all {
		now[m.ID] = m.Path
	}
	for id, path := range w.before {
		if now[id] != path {
			w.hub.Tell(w.container(path))
		}
	}
	w.before = now
}

// container is the ID of the container that has a mount point.
func (w *mountWatch) container(path string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, w.dir), "/"), "/")
	return id
}
