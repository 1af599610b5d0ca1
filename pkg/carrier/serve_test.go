package carrier

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// greeter is a kind of carrier for tests.
func greeter() Kind {
	return Kind{Name: "greeter", Title: "greeter", Protocol: 3, MaxRequest: 1 << 10, MaxAnswer: 1 << 10}
}

type greetRequest struct {
	Name string `json:"name,omitempty"`
}

type greetAnswer struct {
	Text string `json:"text,omitempty"`
}

type greeterInfo struct {
	Info
	Greeted int `json:"greeted"`
}

// serveGreeter serves one until the test ends.
func serveGreeter(t *testing.T, run string) (ended chan error) {
	t.Helper()
	ended = make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		ended <- Serve(ctx, ServeConfig{Kind: greeter(), RunDir: run, Version: "test", SameGroup: true}, func(_ context.Context, s *Server, _ zerolog.Logger) (func(), error) {
			Handle(s, "greet", func(_ context.Context, r greetRequest) (greetAnswer, error) {
				switch r.Name {
				case "":
					return greetAnswer{}, node.Errorf(node.Invalid, "cannot greet nobody")
				case "panic":
					panic("a bug")
				}
				return greetAnswer{"hello " + r.Name}, nil
			})
			s.Describe(func(i Info) any { return greeterInfo{Info: i, Greeted: 5} })
			return func() {}, nil
		})
	}()
	return ended
}

func ensureGreeter(t *testing.T, run string) *Client {
	t.Helper()
	for {
		client, err := Ensure(t.Context(), greeter(), Config{RunDir: run, Command: []string{"/bin/false"}, Log: zerolog.Nop()}, func(i greeterInfo) (bool, error) {
			return i.Protocol == 3 && i.Greeted == 5, nil
		})
		if err == nil {
			t.Cleanup(client.Close)
			return client
		}
		select {
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestTypedCalls(t *testing.T) {
	run := t.TempDir()
	serveGreeter(t, run)
	client := ensureGreeter(t, run)
	if client.PID() != os.Getpid() {
		t.Errorf("its PID is %d", client.PID())
	}
	for name, want := range map[string]struct {
		kind node.Kind
		text string
	}{
		"Ada": {"", "hello Ada"}, "": {node.Invalid, "cannot greet nobody"}, "panic": {node.Internal, "panic"}, strings.Repeat("x", 2000): {node.Invalid, "bytes"},
	} {
		answer, err := Ask[greetAnswer](t.Context(), client, "greet", greetRequest{name})
		if want.kind == "" {
			if err != nil || answer.Text != want.text {
				t.Errorf("%q: %+v (%v)", name, answer, err)
			}
			continue
		}
		if node.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%.10q: %+v, error %v", name, answer, err)
		}
	}
	info, err := AskInfo[greeterInfo](t.Context(), client)
	if err != nil || info.PID != os.Getpid() || info.Version != "test" || info.Protocol != 3 || info.Greeted != 5 {
		t.Errorf("%+v (%v)", info, err)
	}
	if _, err := Ask[greetAnswer](t.Context(), client, "sing", Nothing{}); !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), "no such operation") {
		t.Errorf("an unknown operation: %v", err)
	}
	if _, err := Ask[greetAnswer](t.Context(), client, "greet", struct{ Loud bool }{true}); !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), "unknown field") {
		t.Errorf("an unknown member: %v", err)
	}
}

// A client of another protocol than the carrier's can ask it to stop, and no more.
func TestClientOfAnotherProtocol(t *testing.T) {
	run := t.TempDir()
	ended := serveGreeter(t, run)
	client := ensureGreeter(t, run)
	client.kind.Protocol = 99
	if _, err := Ask[greetAnswer](t.Context(), client, "greet", greetRequest{"Ada"}); !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), "speaks version 3") {
		t.Errorf("an operation of another protocol: %v", err)
	}
	if _, err := AskInfo[greeterInfo](t.Context(), client); err != nil {
		t.Error(err)
	}
	if _, err := Ask[Nothing](t.Context(), client, opStop, Nothing{}); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestLinesAreOneObject(t *testing.T) {
	for want, c := range map[string]struct{ head, document any }{
		`{"version":3,"op":"greet"}`:                            {requestHead{3, "greet"}, Nothing{}},
		`{"version":3,"op":"greet","name":"Ada"}`:               {requestHead{3, "greet"}, greetRequest{"Ada"}},
		`{"version":3,"text":"\u003chello\u003e"}`:              {answerHead{Version: 3}, greetAnswer{"<hello>"}},
		`{"version":3,"error":{"kind":"Busy","message":"why"}}`: {answerHead{3, &failure{node.Busy, "why"}}, greetAnswer{}},
	} {
		line, err := encode(c.head, c.document)
		if err != nil || string(line) != want || !json.Valid(line) {
			t.Errorf("%s (%v), want %s", line, err, want)
		}
	}
	for _, document := range []any{nil, 7, "x", []int{1}, make(chan int)} {
		if line, err := encode(requestHead{}, document); err == nil {
			t.Errorf("%T is %s", document, line)
		}
	}
}
