package userapi_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

func TestAnOwnerSeesTheirWorkload(t *testing.T) {
	w := newWorld(t)
	c := w.dial(w.dialer())
	if events, err := c.Events(t.Context(), "7-1"); err != nil || len(events) != 1 || events[0].Message != "7-1 of "+w.user.ID() {
		t.Fatalf("events %+v, %v", events, err)
	}
	s, err := c.Status(t.Context(), "7-1")
	if err != nil || s.ID != "7-1" || s.Container == nil || s.Container.Restarts != 3 || s.Container.LastLog[0] != "bye" {
		t.Errorf("status %+v, %v", s, err)
	}
	use, err := c.Stats(t.Context(), "7-1")
	if err != nil || use.CPU != 5 || use.Memory != 6 {
		t.Errorf("use %+v, %v", use, err)
	}
	if v, err := c.Version(t.Context()); err != nil || v.Version != "v9" || v.NodeID != w.node.ID() {
		t.Errorf("version %+v, %v", v, err)
	}
	var got []string
	err = c.Logs(t.Context(), "7-1", nodeapi.LogOptions{Tail: 1}, func(l nodeapi.LogLine) error {
		got = append(got, l.Stream+" "+l.Text)
		return nil
	})
	if err != nil || len(got) != 1 || got[0] != "stdout one" {
		t.Errorf("logs %v, %v", got, err)
	}
}

// Only the owner learns that a workload exists: other users get the same answer as for a missing one.
func TestOthersWorkloadsAreNotThere(t *testing.T) {
	w := newWorld(t)
	d := w.dialer()
	d.User = must[sign.KeyPair](t)(sign.Generate())
	ask := func(id string) map[string]error {
		out := map[string]error{}
		_, out["status"] = w.dial(d).Status(t.Context(), id)
		_, out["events"] = w.dial(d).Events(t.Context(), id)
		_, out["stats"] = w.dial(d).Stats(t.Context(), id)
		out["watch"] = w.dial(d).WatchStats(t.Context(), id, func(nodeapi.Stats) error { return errors.New("it came") })
		out["logs"] = w.dial(d).Logs(t.Context(), id, nodeapi.LogOptions{Tail: 1}, func(nodeapi.LogLine) error { return errors.New("it came") })
		_, out["exec"] = w.dial(d).Exec(t.Context(), id, nodeapi.ExecOptions{Args: []string{"cat"}}, nodeapi.ExecIO{Stdout: io.Discard, Stderr: io.Discard})
		_, out["delete"] = w.dial(d).Delete(t.Context(), id, workload.Deletion{Created: time.Now(), Signature: make([]byte, 64)})
		return out
	}
	theirs, missing := ask("7-1"), ask("8-1")
	for what, err := range theirs {
		if !refusedBy(err, node.NotExist, "404") {
			t.Errorf("%s: %v", what, err)
		}
		if strings.ReplaceAll(err.Error(), "7-1", "8-1") != missing[what].Error() {
			t.Errorf("%s tells them apart: %q and %q", what, err, missing[what])
		}
	}
	if w.streams.running() != 0 || w.streams.began != 0 || len(w.records.deleted) != 0 {
		t.Error("something was done")
	}
}

func TestIDsThatAreNoneAreNotThere(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"x", "07-1", "7-1 ", "7-1/../7-1", "..", "7-1\n", strings.Repeat("9", 4000)} {
		if _, err := w.dial(w.dialer()).Status(t.Context(), id); !refusedBy(err, node.NotExist, "cannot find") {
			t.Errorf("%.20q: %v", id, err)
		}
	}
}

func TestACommandsStreamsAndExitCodeComeThrough(t *testing.T) {
	w := newWorld(t)
	for _, big := range []int{0, 10 << 20} {
		in := make([]byte, big)
		_, _ = rand.Read(in)
		var out bytes.Buffer
		code, err := w.dial(w.dialer()).Exec(t.Context(), "7-1", nodeapi.ExecOptions{Args: []string{"cat"}},
			nodeapi.ExecIO{Stdin: bytes.NewReader(in), Stdout: &out, Stderr: io.Discard})
		if err != nil || code != 7 || !bytes.Equal(out.Bytes(), in) {
			t.Errorf("%d bytes: exit code %d, %d bytes back, %v", big, code, out.Len(), err)
		}
	}
	var stderr bytes.Buffer
	sizes := make(chan nodeapi.Size, 1)
	sizes <- nodeapi.Size{Width: 80, Height: 24}
	if _, err := w.dial(w.dialer()).Exec(t.Context(), "7-1", nodeapi.ExecOptions{Args: []string{"size"}, Terminal: true},
		nodeapi.ExecIO{Stdout: io.Discard, Stderr: &stderr, Resize: sizes}); err != nil || stderr.String() != "\x50\x18" {
		t.Errorf("size %q, %v", stderr.String(), err)
	}
	_, err := w.dial(w.dialer()).Exec(t.Context(), "7-1", nodeapi.ExecOptions{Args: []string{"nothing"}}, nodeapi.ExecIO{Stdout: io.Discard, Stderr: io.Discard})
	if !refusedBy(err, node.Invalid, "there is no such program") {
		t.Errorf("no such program: %v", err)
	}
}

// The node's log has who ran a command and where, never the command.
func TestCommandsAreNotedWithoutTheirArguments(t *testing.T) {
	w := newWorld(t)
	_, err := w.dial(w.dialer()).Exec(t.Context(), "7-1", nodeapi.ExecOptions{Args: []string{"cat", "hunter2"}, Env: []string{"PASSWORD=hunter3"}},
		nodeapi.ExecIO{Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	w.settle("the end isn't noted", func() bool { return strings.Contains(w.log.String(), "exec has ended") })
	text := w.log.String()
	if !strings.Contains(text, "exec begins") || !strings.Contains(text, w.user.ID()) || !strings.Contains(text, `"id":"7-1"`) {
		t.Errorf("the log says %s", text)
	}
	if strings.Contains(text, "hunter") {
		t.Errorf("the log has the arguments: %s", text)
	}
}

func TestWrongCommandsAreRefused(t *testing.T) {
	w := newWorld(t)
	for words, o := range map[string]nodeapi.ExecOptions{
		"args has 0 members":    {},
		"the first not empty":   {Args: []string{""}},
		"a zero byte":           {Args: []string{"cat", "a\x00b"}},
		"isn't NAME=VALUE":      {Args: []string{"cat"}, Env: []string{"=x"}},
		"args has 1025 members": {Args: strings.Split("cat"+strings.Repeat(" a", 1024), " ")},
		"larger than 65536":     {Args: []string{"cat", strings.Repeat("a", 70000)}},
	} {
		_, err := w.dial(w.dialer()).Exec(t.Context(), "7-1", o, nodeapi.ExecIO{Stdout: io.Discard, Stderr: io.Discard})
		if !refusedBy(err, node.Invalid, words) {
			t.Errorf("%s: %v", words, err)
		}
	}
	if w.streams.began != 0 {
		t.Error("something was run")
	}
}

// A command ends when its user hangs up, and with the node.
func TestAbandonedCommandEnds(t *testing.T) {
	w := newWorld(t)
	for _, command := range []string{"hang", "flood"} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		first := make(chan struct{}, 1)
		go func() {
			_, err := w.dial(w.dialer()).Exec(ctx, "7-1", nodeapi.ExecOptions{Args: []string{command}}, nodeapi.ExecIO{Stdout: signalling{first}, Stderr: io.Discard})
			done <- err
		}()
		w.settle(command+" doesn't begin", func() bool { return w.streams.running() == 1 })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", command, err)
		}
		w.settle(command+" runs on", func() bool { return w.streams.running() == 0 })
	}
}

type signalling struct{ c chan struct{} }

func (s signalling) Write(p []byte) (int, error) {
	select {
	case s.c <- struct{}{}:
	default:
	}
	return len(p), nil
}

func TestLogsAreFollowedUntilTheUserGoesOrTheContainerDoes(t *testing.T) {
	w := newWorld(t)
	stop := errors.New("enough")
	got := make(chan string)
	done := make(chan error, 1)
	follow := func(f func(l nodeapi.LogLine) error) {
		done <- w.dial(w.dialer()).Logs(t.Context(), "7-1", nodeapi.LogOptions{Tail: 0, Follow: true}, f)
	}
	go follow(func(l nodeapi.LogLine) error {
		got <- l.Text
		if l.Text == "b" {
			return stop
		}
		return nil
	})
	for _, text := range []string{"a", "b"} {
		w.streams.lines <- node.LogLine{Stream: "stdout", Text: text}
		if s := <-got; s != text {
			t.Errorf("got %q, want %q", s, text)
		}
	}
	if err := <-done; !errors.Is(err, stop) {
		t.Errorf("the user's own end: %v", err)
	}
	go follow(func(nodeapi.LogLine) error { return nil })
	w.streams.lines <- node.LogLine{Stream: "stderr", Text: "c"}
	close(w.streams.lines)
	if err := <-done; !refusedBy(err, node.NotExist, "the container is gone") {
		t.Errorf("the container's end: %v", err)
	}
}

func TestUseIsWatched(t *testing.T) {
	w := newWorld(t)
	n, stop := 0, errors.New("enough")
	err := w.dial(w.dialer()).WatchStats(t.Context(), "7-1", func(nodeapi.Stats) error {
		if n++; n == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 3 {
		t.Errorf("%d readings, %v", n, err)
	}
}

func TestADeletionIsHandedOver(t *testing.T) {
	w := newWorld(t)
	d := workload.Deletion{Created: time.Now(), Signature: []byte("signature")}
	if s, err := w.dial(w.dialer()).Delete(t.Context(), "7-1", d); err != nil || s.ID != "7-1" {
		t.Errorf("status %+v, %v", s, err)
	}
	w.records.fail = node.Errorf(node.Refused, "cannot delete 7-1: that isn't your signature")
	if _, err := w.dial(w.dialer()).Delete(t.Context(), "7-1", d); !refusedBy(err, node.Refused, "that isn't your signature") {
		t.Errorf("a refused one: %v", err)
	}
	if got := strings.Join(w.records.deleted, "; "); got != "7-1 signature; 7-1 signature" {
		t.Errorf("handed over: %s", got)
	}
}

// A full node answers as an explorer does: the request is valid and worth a retry.
func TestNoSpaceIsAnsweredAsByTheExplorer(t *testing.T) {
	w := newWorld(t)
	w.records.fail = node.Errorf(node.NoSpace, "cannot delete 7-1: the disk is full")
	_, err := w.dial(w.dialer()).Delete(t.Context(), "7-1", workload.Deletion{Created: time.Now(), Signature: []byte("signature")})
	var answer *explorer.AnswerError
	if !errors.As(err, &answer) || answer.Problem.Status != 507 || answer.Problem.Kind != string(node.NoSpace) || node.KindOf(err) != node.Transient {
		t.Errorf("%v: %+v", err, answer)
	}
}

// A panic in one request affects only that request.
func TestAPanicEndsWithItsRequest(t *testing.T) {
	w := newWorld(t)
	if _, err := w.dial(w.dialer()).Status(t.Context(), "6-6"); err == nil || !strings.Contains(err.Error(), "the node failed") {
		t.Errorf("in an answer: %v", err)
	}
	_, err := w.dial(w.dialer()).Exec(t.Context(), "7-1", nodeapi.ExecOptions{Args: []string{"panic"}}, nodeapi.ExecIO{Stdout: io.Discard, Stderr: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("in a command: %v", err)
	}
	if _, err := w.dial(w.dialer()).Status(t.Context(), "7-1"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestANodeWithoutContainersSaysSo(t *testing.T) {
	w := newWorld(t, func(c *userapi.Config) { c.Streams = nil })
	if _, err := w.dial(w.dialer()).Stats(t.Context(), "7-1"); !refusedBy(err, node.Refused, "has no containers") {
		t.Errorf("got %v", err)
	}
}

func TestAFileGetsTheAddressAndATakenPortIsAnError(t *testing.T) {
	w := newWorld(t)
	_, err := userapi.Listen(t.Context(), userapi.Config{NodeID: w.node.ID(), Listen: w.door.Address()})
	if err == nil || !strings.Contains(err.Error(), "cannot listen on door-listen "+w.door.Address()) {
		t.Errorf("got %v", err)
	}
}
