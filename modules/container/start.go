package container

import (
	"context"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/logs"
	"github.com/croft-edge/croft/pkg/node"
)

// start starts a container, and nothing when it runs.
func (m *Module) start(ctx context.Context, id string) (node.ContainerInfo, error) {
	if err := checkID(id); err != nil {
		return node.ContainerInfo{}, err
	}
	it, err := m.hold(ctx, id)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	defer m.release(it)
	r, known := m.recordOf(id)
	if known && it.ready.pid != 0 {
		info, err := m.startReady(m.daemon.Namespace(ctx, r.User), it, it.ready)
		if err == nil || node.KindOf(err) == node.Invalid {
			return info, m.failed(it, r, err)
		}
		// It may only have ended while it waited: it is made anew.
	}
	in, found, err := m.findBy(ctx, id, r)
	if err != nil {
		return node.ContainerInfo{}, err
	}
	if !known {
		return node.ContainerInfo{}, node.Errorf(node.Transient, "cannot start container %s: what it was made from is lost, create it again", id)
	}
	if err := m.run(in, it, found); err != nil {
		return node.ContainerInfo{}, m.failed(it, r, err)
	}
	return m.inspectIn(in, found)
}

// failed remembers why a container couldn't be started, and returns that.
func (m *Module) failed(it *item, r record, err error) error {
	if err == nil {
		return nil
	}
	if r.Cause = err.Error(); m.keep(it, r) != nil {
		m.cfg.Log.Error().Err(err).Str("id", it.id).Str("type", "container").Msg("a failed start isn't remembered")
	}
	return err
}

// startReady starts what this module has made ready, without asking containerd
// for what it knows of it. ctx has the user's namespace.
func (m *Module) startReady(ctx context.Context, it *item, w waiting) (node.ContainerInfo, error) {
	if err := m.begin(ctx, it, w.container, w.task); err != nil {
		return node.ContainerInfo{}, err
	}
	status, err := w.task.Status(ctx)
	if containerd.Kind(err) == node.NotExist || err == nil {
		return m.shown(ctx, w.container, w.task, status)
	}
	return node.ContainerInfo{}, containerd.Error(err, "look at what runs in container %s", it.id)
}

// findBy is the container of that ID where its record says that it is, else
// where containerd has it.
func (m *Module) findBy(ctx context.Context, id string, r record) (context.Context, client.Container, error) {
	if r.User != "" {
		in, found, err := load(ctx, m.daemon, r.User, id)
		if node.KindOf(err) != node.NotExist {
			return in, found, err
		}
	}
	return m.cfg.find(ctx, m.daemon, id)
}

// run makes a container run. The item is held.
func (m *Module) run(ctx context.Context, it *item, c client.Container) error {
	t, status, err := task(ctx, c)
	if err != nil {
		return err
	}
	if t != nil {
		if done, err := m.goOn(ctx, it, c, t, status.Status); done || err != nil {
			return err
		}
	}
	t, err = m.stage(ctx, it, c, nil)
	if err == nil {
		err = m.begin(ctx, it, c, t)
	}
	return err
}

// goOn has a task that is there run, and reports whether it does. One that can't is
// taken away.
func (m *Module) goOn(ctx context.Context, it *item, c client.Container, t client.Task, status client.ProcessStatus) (done bool, err error) {
	r, _ := m.recordOf(it.id)
	switch {
	case status == client.Paused || status == client.Running:
		if status == client.Paused {
			if err := t.Resume(ctx); err != nil {
				return false, containerd.Error(err, "let container %s go on", it.id)
			}
		}
		if r.Wanted && r.Next == 0 {
			return true, nil
		}
		r.start(time.Now())
		return true, m.keep(it, r)
	case status == client.Created && it.ready.pid == t.Pid():
		// It may have ended while it waited: only what the image is to blame for
		// would fail again.
		if err := m.begin(ctx, it, c, t); err == nil || node.KindOf(err).Final() {
			return true, err
		}
		return false, nil
	}
	return false, drop(ctx, t)
}

func orNothing(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// newTask makes a container's task, also where a containerd that isn't croft's
// own has left a folder in its way.
func (m *Module) newTask(ctx context.Context, c client.Container, user string, to pipes) (client.Task, error) {
	say := func(string) (cio.IO, error) { return to, nil }
	// Containers are kept as ones of plain runc: what it takes to create them is each croft's own affair.
	options := func(_ context.Context, _ *client.Client, t *client.TaskInfo) error {
		t.Options = m.cfg.runtimeOptions(m.cfg.wrapper())
		return nil
	}
	t, err := c.NewTask(ctx, say, options)
	namespace := m.daemon.NamespaceName(user)
	bundle := bundleIn(err, namespace, c.ID())
	if bundle == "" {
		return t, err
	}
	if err := m.dropBundle(ctx, bundle, namespace, c.ID()); err != nil {
		return nil, err
	}
	return c.NewTask(ctx, say, options)
}

// dropAfter removes what a failed start has left.
func (m *Module) dropAfter(ctx context.Context, c client.Container, user string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	t, _, err := task(ctx, c)
	if err == nil && t != nil {
		err = drop(ctx, t)
	}
	if err == nil {
		err = m.clearLeft(ctx, user, c.ID())
	}
	if err != nil {
		m.cfg.Log.Warn().Err(err).Str("id", c.ID()).Str("type", "container").Msg("what a failed start has left is removed later")
	}
}

// pipes are a container's output, which the log carrier reads: this process
// opens none of it.
type pipes logs.FIFOs

// Config implements cio.IO.
func (p pipes) Config() cio.Config { return cio.Config{Stdout: p.Stdout, Stderr: p.Stderr} }

// Cancel implements cio.IO.
func (pipes) Cancel() {}

// Wait implements cio.IO.
func (pipes) Wait() {}

// Close implements cio.IO.
func (pipes) Close() error { return nil }

// What runc says of what it was asked to start, rather than of the machine.
var (
	imageFaults = []string{
		"unable to start container process: exec:", "executable file not found", "no such file or directory", "permission denied",
		"exec format error", "not a directory", "unable to find user", "oom-killed", "container init was", "mkdir /proc/self/cwd", "chdir to cwd",
	}
	causeStarts = []string{"unable to start container process: ", "runc create failed: ", "OCI runtime start failed: ", "OCI runtime create failed: "}
)

// startError says whose fault a failed start is. Only runc's text tells.
func startError(err error, id string) error {
	kind := containerd.Kind(err)
	if err == nil || kind == node.Transient {
		return containerd.Error(err, "start container %s", id)
	}
	text := err.Error()
	if !strings.Contains(text, "OCI runtime") {
		return containerd.Error(err, "start container %s", id)
	}
	kind = node.Transient
	if strings.Contains(text, "unable to retrieve OCI runtime error") { // runc has said nothing: it wasn't started
		return node.Errorf(kind, "cannot start container %s: %s", id, text)
	}
	for _, fault := range imageFaults {
		if strings.Contains(strings.ToLower(text), fault) {
			kind = node.Invalid
		}
	}
	for _, start := range causeStarts {
		if _, cause, ok := strings.Cut(text, start); ok {
			text = cause
			break
		}
	}
	return node.Errorf(kind, "cannot start container %s: %s", id, strings.TrimSuffix(text, ": unknown"))
}
