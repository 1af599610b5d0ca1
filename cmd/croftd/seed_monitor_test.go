package main_test

import (
	"context"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/internal/testing/nodetest"
)

// seedStreams are the streams of nodes in the seed's time, by object, each with a field of an event, or
// of its first element, that croft's own versions lack.
func seedStreams() map[[3]string]string {
	return map[[3]string]string{
		{"monitor", "system", "CPU"}: "Softirq", {"monitor", "system", "Memory"}: "CommittedAS",
		{"monitor", "system", "Disks"}: "WeightedIO", {"monitor", "system", "Nics"}: "RateOut",
		{"monitor", "host", "Uptime"}: "", {"identityd", "monitor", "Version"}: "Patch",
	}
}

// seedEvent is the next event of a stream, as a plain zbus client of that time reads it.
func seedEvent(t *testing.T, url string, stream [3]string) (event any) {
	t.Helper()
	client, err := zbus.NewRedisClient(url)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := client.Stream(ctx, stream[0], zbus.ObjectIDFromString(stream[1]+"@0.0.1"), stream[2])
	if err != nil {
		t.Fatal(err)
	}
	frame, open := <-events
	if !open {
		t.Fatalf("%v sent nothing", stream)
	}
	if err := frame.Unmarshal(&event); err != nil {
		t.Fatalf("%v: %v", stream, err)
	}
	return event
}

// hasMember looks for a field in the event, or in its first element.
func hasMember(event any, name string) bool {
	switch event := event.(type) {
	case map[string]any:
		if _, has := event[name]; has {
			return true
		}
		for _, element := range event {
			return hasMember(element, name)
		}
	case []any:
		return len(event) > 0 && hasMember(event[0], name)
	case int64:
		return name == "" && event > 0
	}
	return false
}

func TestMonitorsOfTheSeedsTime(t *testing.T) {
	t.Parallel()
	w := nodetest.New(t, bins)
	w.StartExplorer()
	n := w.NewNode("n")
	n.Start()
	n.WaitReady()
	for stream, member := range seedStreams() {
		if event := seedEvent(t, n.BusURL(), stream); !hasMember(event, member) {
			t.Errorf("%v sends %v, want a member %s", stream, event, member)
		}
	}
	n.Stop()
}

// TestAsProcessesVersionForLateSubscribers: redis keeps no events.
func TestAsProcessesVersionForLateSubscribers(t *testing.T) {
	_, n := split(t)
	for range 2 {
		for stream, member := range seedStreams() {
			if event := seedEvent(t, n.RedisURL(), stream); !hasMember(event, member) {
				t.Errorf("%v sends %v, want a member %s", stream, event, member)
			}
		}
	}
	n.StopAll()
}
