package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/croft-edge/croft/internal/testing/statetest"
	"github.com/croft-edge/croft/pkg/privatesocket"
	"github.com/croft-edge/croft/pkg/statesocket"
)

// knowledge is the state of the node on the script's machine.
type knowledge struct {
	state state.State
	stop  func()
}

// stateCommand: state on|off|put ID KEY=VALUE…|destroy ID: the node of this machine serves its state, or ends; it puts
// a workload with members of its spec, labels (label.NAME=VALUE) and conditions
// (if.NAME=STATUS or STATUS:REASON), and removes it. <ESC> in a value is a control character.
func stateCommand(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	ctx := context.Background()
	switch args[0] {
	case "on":
		ts.Check(w.know(ctx, ts.Getenv("CROFT_STATE_SOCKET")))
		ts.Defer(func() { w.known.stop() })
	case "off":
		w.known.stop()
	case "put":
		members := map[string]string{}
		for _, arg := range args[2:] {
			name, value, _ := strings.Cut(arg, "=")
			members[name] = strings.ReplaceAll(value, "<ESC>", "\x1b")
		}
		ts.Check(w.known.put(ctx, args[1], members))
	case "destroy":
		ts.Check(w.known.state.Destroy(ctx, statetest.NewWorkload(args[1], statetest.WorkloadSpec{}).Metadata()))
	default:
		ts.Fatalf("unknown: state %s", args[0])
	}
}

// know composes a state and serves it.
func (w *world) know(ctx context.Context, socket string) error {
	st, err := statetest.New(ctx)
	if err != nil {
		return err
	}
	server, err := statesocket.Listen(ctx, statesocket.Config{Path: socket, State: st})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Run(ctx)
	}()
	w.known = knowledge{state: st, stop: func() {
		cancel()
		<-done
	}}
	return nil
}

// put creates or updates a workload.
func (k knowledge) put(ctx context.Context, id string, members map[string]string) error {
	return k.state.Modify(ctx, statetest.NewWorkload(id, statetest.WorkloadSpec{}), func(r resource.Resource) error {
		spec := r.(*statetest.Workload).TypedSpec()
		for name, value := range members {
			if label, ok := strings.CutPrefix(name, "label."); ok {
				r.Metadata().Labels().Set(label, value)
				continue
			}
			if condition, ok := strings.CutPrefix(name, "if."); ok {
				setCondition(spec, condition, value)
				continue
			}
			switch name {
			case "kind":
				spec.Kind = value
			case "phase":
				spec.Phase = value
			case "message":
				spec.Message = value
			}
		}
		return nil
	})
}

func setCondition(spec *statetest.WorkloadSpec, name, value string) {
	status, reason, _ := strings.Cut(value, ":")
	c := statetest.Condition{Type: name, Status: status, Reason: reason}
	for i := range spec.Conditions {
		if spec.Conditions[i].Type == name {
			spec.Conditions[i] = c
			return
		}
	}
	spec.Conditions = append(spec.Conditions, c)
}

// debugCommand: debug FOLDER: the node of this machine serves the dumps in the folder, all.yaml and NAME.yaml, in the form of
// package dump of croftd. A name without a file is unknown, and busy.yaml is a refusal.
func debugCommand(ts *testscript.TestScript, _ bool, args []string) {
	folder := ts.MkAbs(args[0])
	l, err := privatesocket.Listen(context.Background(), privatesocket.Config{Path: ts.Getenv("CROFT_DEBUG_SOCKET")})
	ts.Check(err)
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, name string) {
		text, err := os.ReadFile(filepath.Join(folder, filepath.Base(name)+".yaml"))
		if err != nil {
			text = []byte("{}\n")
		}
		if name == "busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(text)
	}
	mux.HandleFunc("GET /dump", func(w http.ResponseWriter, _ *http.Request) { answer(w, "all") })
	mux.HandleFunc("GET /dump/{name}", func(w http.ResponseWriter, r *http.Request) { answer(w, r.PathValue("name")) })
	server := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	ts.Defer(func() {
		server.Close()
		<-done
	})
}
