package conformance

import (
	"context"
	"fmt"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// DebugClient is the interface of the stub of node.Debug.
type DebugClient interface {
	Start(ctx context.Context, spec node.DebugSpec) (node.DebugInfo, error)
	Stop(ctx context.Context, id string) error
	List(ctx context.Context) ([]node.DebugInfo, error)
}

// DebugSubject is a debug module without streams.
type DebugSubject struct {
	Client DebugClient
	// Restart makes the module anew, like a restart of its process, and
	// returns the new client.
	Restart func(t *testing.T) DebugClient
	// Host and Port are a redis server's that it may use, Most is the largest
	// number of streams.
	Host string
	Port uint16
	Most int
}

// DebugSuite tests an implementation of node.Debug.
func DebugSuite(t *testing.T, open func(t *testing.T) DebugSubject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s DebugSubject)
	}{
		{"twice", debugTwice},
		{"stop what isn't there", func(t *testing.T, s DebugSubject) {
			expect.Kind(t, s.Client.Stop(t.Context(), "9-1"), node.NotExist)
		}},
		{"another hash", debugAnotherHash},
		{"as many as there may be", debugMost},
		{"after a restart", debugRestart},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) { part.run(t, open(t)) })
	}
}

func (s DebugSubject) spec(id string) node.DebugSpec {
	return node.DebugSpec{ID: id, User: "U", Host: s.Host, Port: s.Port, Channel: "c-" + id}
}

func debugIDs(t *testing.T, c DebugClient) string {
	t.Helper()
	all, err := c.List(t.Context())
	expect.NoError(t, err)
	text := ""
	for _, i := range all {
		text += i.ID + " "
	}
	return text
}

func debugTwice(t *testing.T, s DebugSubject) {
	for range 2 {
		info, err := s.Client.Start(t.Context(), s.spec("2-1"))
		expect.NoError(t, err)
		if info.ID != "2-1" || info.User != "U" || info.Host != s.Host || info.Port != s.Port || info.Channel != "c-2-1" {
			t.Errorf("it is %+v", info)
		}
	}
	other := s.spec("2-1")
	other.Channel = "other"
	_, err := s.Client.Start(t.Context(), other)
	expect.Kind(t, err, node.Exist)
	_, err = s.Client.Start(t.Context(), s.spec("1-1"))
	expect.NoError(t, err)
	if ids := debugIDs(t, s.Client); ids != "1-1 2-1 " {
		t.Errorf("there are %s", ids)
	}
	expect.NoError(t, s.Client.Stop(t.Context(), "2-1"))
	expect.Kind(t, s.Client.Stop(t.Context(), "2-1"), node.NotExist)
	if ids := debugIDs(t, s.Client); ids != "1-1 " {
		t.Errorf("left are %s", ids)
	}
}

func debugAnotherHash(t *testing.T, s DebugSubject) {
	spec := s.spec("1-1")
	spec.Hash = expect.OneHash
	info, err := s.Client.Start(t.Context(), spec)
	expect.NoError(t, err)
	if info.Hash != expect.OneHash {
		t.Errorf("it is %+v", info)
	}
	for _, hash := range []string{expect.AnotherHash, ""} {
		spec.Hash = hash
		_, err = s.Client.Start(t.Context(), spec)
		expect.Kind(t, err, node.Exist)
		expect.Text(t, err, "isn't this reservation's")
	}
	all, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(all) != 1 || all[0].Hash != expect.OneHash {
		t.Errorf("there are %+v", all)
	}
	spec.ID, spec.Hash = "2-1", "no hash"
	_, err = s.Client.Start(t.Context(), spec)
	expect.Kind(t, err, node.Invalid)
}

func debugMost(t *testing.T, s DebugSubject) {
	for i := range s.Most {
		_, err := s.Client.Start(t.Context(), s.spec(fmt.Sprintf("%d-1", i+1)))
		expect.NoError(t, err)
	}
	_, err := s.Client.Start(t.Context(), s.spec("999-1"))
	expect.Kind(t, err, node.NoSpace)
	_, err = s.Client.Start(t.Context(), s.spec("1-1"))
	expect.NoError(t, err)
	expect.NoError(t, s.Client.Stop(t.Context(), "1-1"))
	_, err = s.Client.Start(t.Context(), s.spec("999-1"))
	expect.NoError(t, err)
}

func debugRestart(t *testing.T, s DebugSubject) {
	_, err := s.Client.Start(t.Context(), s.spec("1-1"))
	expect.NoError(t, err)
	again := s.Restart(t)
	if ids := debugIDs(t, again); ids != "" {
		t.Errorf("streams outlive the module: %s", ids)
	}
	_, err = again.Start(t.Context(), s.spec("1-1"))
	expect.NoError(t, err)
}
