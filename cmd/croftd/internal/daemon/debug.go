package daemon

import (
	"context"
	"path/filepath"

	"github.com/croft-edge/croft/cmd/croftd/internal/dump"
	"github.com/croft-edge/croft/pkg/stategraph"
	"github.com/croft-edge/croft/pkg/supervise"
)

// startDebug serves the debug socket: what this process knows, for people who look for a fault.
func (s *state) startDebug(ctx context.Context, parts *supervise.Group, d *daemon) error {
	server, err := dump.Listen(ctx, dump.Config{
		Path: filepath.Join(d.RunDir, "debug.sock"), Resources: dump.NewResources(s.State()), Log: d.Log,
		Sections: []dump.Section{
			{Name: "settings", Read: func(context.Context) (any, error) {
				force, _ := d.settings.inForce()
				return force.Show(), nil
			}},
			{Name: "hooks", Read: func(context.Context) (any, error) { return s.hooks.runner.State(), nil }},
			{Name: "graph", Read: func(context.Context) (any, error) { return s.graph() }},
		},
	})
	if err != nil {
		return err
	}
	parts.Start(supervise.Part{Name: "debug socket", Run: server.Run})
	return nil
}

// graph is what the state's controllers read and write.
func (s *state) graph() (stategraph.Graph, error) {
	graph, err := s.Graph()
	if err != nil {
		return stategraph.Graph{}, err
	}
	return stategraph.New(graph), nil
}
