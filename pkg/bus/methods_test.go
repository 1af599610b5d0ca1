package bus_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
)

// A table that can't be served is refused with the object, and where one is wrong, the method.
func TestBadMethodsAreRefused(t *testing.T) {
	b := bus.NewInProcess()
	defer b.Close()
	s, err := bus.NewServer(b, module, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	good := func(text string) (string, error) { return text, nil }
	for _, c := range []struct {
		methods bus.Methods
		says    []string
	}{
		{nil, []string{"its implementation is nil"}},
		{bus.Methods{}, []string{"it has no methods"}},
		{bus.Methods{"Echo": good, "Worker": newWorker()}, []string{"method Worker", "*bus_test.worker"}},
		{bus.Methods{"Echo": good, "Text": "Echo"}, []string{"method Text", "string"}},
		{bus.Methods{"Echo": good, "Nothing": nil}, []string{"method Nothing", "<nil>"}},
		{bus.Methods{"Echo": good, "Missing": (func() error)(nil)}, []string{"method Missing", "nil func() error"}},
		{bus.Methods{"Echo": good, "Pipe": func(chan int) error { return nil }}, []string{"method Pipe", "an argument of type chan int can't travel"}},
		{bus.Methods{"Echo": good, "Any": func() (any, error) { return 1, nil }}, []string{"method Any", "a result of type interface {} can't travel"}},
		{bus.Methods{"Echo": good, "Talk": func(string) <-chan tick { return nil }}, []string{"method Talk", "a result of type <-chan bus_test.tick can't travel"}},
		{bus.Methods{"Echo": good, "Hear": func(context.Context) chan<- tick { return nil }}, []string{"method Hear", "an argument of type context.Context can't travel"}},
	} {
		err := bus.RegisterMethods(s, object(), c.methods)
		wantKind(t, err, node.Invalid)
		for _, part := range append(c.says, "cannot register object@1.0:") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v doesn't say %q", err, part)
			}
		}
	}
	// None of these took the object's place.
	if err := bus.RegisterMethods(s, object(), bus.Methods{"Echo": good}); err != nil {
		t.Error(err)
	}
}

// The functions of a table need no contract and no implementation, and what changes in the table later is not served.
func TestOnlyTheTableIsServed(t *testing.T) {
	noLeaks(t)
	b := bus.NewInProcess()
	defer b.Close()
	s, err := bus.NewServer(b, module, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker()
	methods := bus.Methods{
		"Echo":   func(text string) (string, error) { return fmt.Sprint("echo of ", text), nil },
		"Events": w.Ticks,
	}
	if err := bus.RegisterMethods(s, object(), methods); err != nil {
		t.Fatal(err)
	}
	methods["Slow"] = w.Slow
	delete(methods, "Echo")
	background(t, s.Run)
	c := bus.NewClient(b, bus.Options{})
	defer c.Close()
	if got, err := call[string](timeout(t, time.Minute), c, "Echo", "a call"); err != nil || got != "echo of a call" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range []string{"Slow", "Huge", "Events"} {
		_, err := call[string](timeout(t, time.Minute), c, name, int64(1))
		wantKind(t, err, node.Invalid)
	}
	events, leave := stream(t, c, "Events")
	nextTick(t, events, time.Minute)
	leave()
}
