package route

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

const nodeID = "n"

func newRouter(t *testing.T, interrupted error) *Router {
	t.Helper()
	return New(Config{
		Explorer: "http://explorer", Notes: filepath.Join(t.TempDir(), "nodes.json"),
		Client: func(bool) (*explorer.Client, error) {
			return explorer.NewClient(explorer.Config{URL: "http://127.0.0.1:1", Now: time.Now})
		},
		Key: sign.Generate, Now: func() time.Time { return time.Unix(1000, 0) }, Interrupted: func() error { return interrupted },
	})
}

func TestAway(t *testing.T) {
	down := node.Errorf(node.Transient, "nobody answers")
	r := newRouter(t, nil)
	err := r.Away(down)
	if away := (*AwayError)(nil); !errors.As(err, &away) || !strings.Contains(err.Error(), "it has never answered this croft") || !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
	if again := r.Away(err); again.Error() != err.Error() {
		t.Errorf("wrapped twice: %v", again)
	}
	r.notes.answered()
	r.notes.now = func() time.Time { return time.Unix(1300, 0) }
	if err := r.Away(down); !strings.Contains(err.Error(), ", 5m ago)") {
		t.Errorf("got %v", err)
	}
	for name, err := range map[string]error{
		"a refusal": node.Errorf(node.Refused, "no"), "nothing": nil,
		"an answer of its own": node.WithKind(node.Transient, &explorer.AnswerError{}),
	} {
		if got := r.Away(err); !errors.Is(got, err) || errors.As(got, new(*AwayError)) {
			t.Errorf("%s became %v", name, got)
		}
	}
	if err := newRouter(t, context.Canceled).Away(down); errors.As(err, new(*AwayError)) {
		t.Errorf("interrupted, it became %v", err)
	}
}

func TestDialWhileTheExplorerIsAway(t *testing.T) {
	r := newRouter(t, nil)
	if _, err := r.Dial(t.Context(), nodeID); err == nil || !strings.Contains(err.Error(), "no address of its own is remembered") {
		t.Errorf("got %v", err)
	}
	away := &AwayError{err: errors.New("down")}
	r.GiveUp(away)
	if _, err := r.Dial(t.Context(), nodeID); !r.GivenUp() || !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}

func TestUnwritableNotesAreNoFailure(t *testing.T) {
	r := newRouter(t, nil)
	r.notes.path = filepath.Join(t.TempDir(), "file", "nodes.json")
	if err := os.WriteFile(filepath.Dir(r.notes.path), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.notes.answered(explorer.Node{NodeID: nodeID, Door: "host:1"})
	if doors := r.notes.doors(); len(doors) != 0 {
		t.Errorf("noted: %v", doors)
	}
}
