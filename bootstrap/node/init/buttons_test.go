package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pkg/errors"
)

// fakeButtons are buttons that come and go.
type fakeButtons struct {
	mu sync.Mutex
	// there has a channel for each button, which is closed when it goes.
	there   map[string]chan struct{}
	watched []string
	said    []string
}

func (f *fakeButtons) find() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for device := range f.there {
		out = append(out, device)
	}
	return out
}

func (f *fakeButtons) watch(device string) error {
	f.mu.Lock()
	f.watched = append(f.watched, device)
	gone := f.there[device]
	f.mu.Unlock()
	<-gone
	return errors.Errorf("%s is gone", device)
}

func (f *fakeButtons) say(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func (f *fakeButtons) plug(device string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.there[device] = make(chan struct{})
}

func (f *fakeButtons) unplug(device string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.there[device])
	delete(f.there, device)
}

func (f *fakeButtons) log() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.watched, " ") + "; " + strings.Join(f.said, ", ")
}

// TestButtonsComeAndGo has the driver of a button come late, and the button go and come back, also between two looks.
func TestButtonsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, devices, ready := &fakeButtons{there: map[string]chan struct{}{}}, newChanged(), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- buttons{f.find, f.watch, f.say}.run(ctx, devices.next, ready) }()
		check := func(want string) {
			t.Helper()
			synctest.Wait()
			pause(ctx, 2*buttonPause)
			synctest.Wait()
			if got := f.log(); got != want {
				t.Errorf("watched and said %q, want %q", got, want)
			}
		}
		check("; ")
		f.plug("event0")
		devices.tell()
		check("event0; ")
		close(ready)
		devices.tell()
		check("event0; ")
		f.unplug("event0")
		devices.tell()
		f.plug("event0")
		devices.tell()
		check("event0 event0; event0 is gone")
		f.plug("event1")
		devices.tell()
		check("event0 event0 event1; event0 is gone")
		f.unplug("event1")
		check("event0 event0 event1; event0 is gone, event1 is gone")
		f.unplug("event0")
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestAMachineWithoutAButtonSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ready := &fakeButtons{there: map[string]chan struct{}{}}, make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- buttons{f.find, f.watch, f.say}.run(ctx, newChanged().next, ready) }()
		close(ready)
		synctest.Wait()
		if got := f.log(); got != "; cannot watch the power button: the machine has none" {
			t.Errorf("said %q", got)
		}
		cancel()
		<-ended
	})
}
