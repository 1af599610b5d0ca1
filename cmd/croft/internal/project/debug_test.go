package project_test

import (
	"testing"

	"github.com/croft-edge/croft/cmd/croft/internal/project"
	"github.com/croft-edge/croft/pkg/sign"
)

// A stream's channel has a default that the node knows: it may be left out.
func TestAChannelMayBeLeftOut(t *testing.T) {
	user, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{host: logs.example.org, port: 6379}`:              `{"host":"logs.example.org","port":6379}`,
		`{host: logs.example.org, port: 6379, channel: ""}`: `{"channel":"","host":"logs.example.org","port":6379}`,
	} {
		f, err := project.Parse("logs.yaml", withNodes(t, "project: p\nnode: NODE1\nduration: 1d\nworkloads:\n  logs:\n    debug: "+text))
		if err != nil {
			t.Fatal(err)
		}
		logs := f.Find("logs")
		if err := logs.Check(user.ID()); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if data, err := logs.Data(project.Targets{}, nil, nil); err != nil || string(data) != want {
			t.Errorf("%s gives %s, %v", text, data, err)
		}
	}
}
