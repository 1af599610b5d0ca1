package conformance

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// ContainersClient is the interface of the stub of node.Containers.
type ContainersClient interface {
	Create(ctx context.Context, spec node.ContainerSpec) (node.ContainerInfo, error)
	Start(ctx context.Context, id string) (node.ContainerInfo, error)
	Inspect(ctx context.Context, id string) (node.ContainerInfo, error)
	Delete(ctx context.Context, id string) error
	List(ctx context.Context) ([]node.ContainerInfo, error)
	Logs(ctx context.Context, id string, lines uint64) ([]node.LogLine, error)
	Stats(ctx context.Context, id string) (node.ContainerStats, error)
	Status(ctx context.Context) (node.ContainerStatus, error)
}

// ImagesClient is the interface of the stub of node.Images.
type ImagesClient interface {
	Pull(ctx context.Context, spec node.ImageSpec) (node.Image, error)
	Inspect(ctx context.Context, label string) (node.Image, error)
	Release(ctx context.Context, label string) error
	List(ctx context.Context) ([]node.Image, error)
	Status(ctx context.Context) (node.ImageStatus, error)
}

// ContainersSubject is a new container module, without containers and
// images.
type ContainersSubject struct {
	Client ContainersClient
	Images ImagesClient
	// Reference is an image that the node may take from its own disk. Serve is
	// an entry point of it that prints "hello" and runs until it is stopped,
	// Fail one that prints "bye" and ends with an exit code other than 0.
	Reference   string
	Serve, Fail []string
	// Layer makes a folder that can be a container's Layer, Volume one that can
	// be mounted.
	Layer, Volume func(t *testing.T) string
	// Restart kills the module like kill -9, starts it again on the same
	// folders, and returns the new clients.
	Restart func(t *testing.T) (ContainersClient, ImagesClient)
}

// slow is the time limit of steps that need a new process, on a busy machine.
const slow = 2 * time.Minute

// containerUser owns the suite's containers.
const containerUser = networkUser

// ContainersSuite tests an implementation of node.Containers and node.Images. Each
// part gets its own subject from open.
func ContainersSuite(t *testing.T, open func(t *testing.T) ContainersSubject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s ContainersSubject)
	}{
		{"images", imagesPull},
		{"create and start", containersLife},
		{"twice", containersTwice},
		{"another hash", containersAnotherHash},
		{"unlabelled, not adopted", containersUnlabelled},
		{"unlabelled, adopted", containersAdopted},
		{"remove what isn't there", containersRemoveNothing},
		{"made again", containersMadeAgain},
		{"after a restart", containersRestart},
		{"changed", containersChange},
		{"ends by itself", containersEnd},
		{"bad specs", containersBadSpecs},
		{"what they say and use", containersMeasure},
		{"status", containersStatus},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(t, open(t))
		})
	}
}

// pull pulls the image for a label, and waits until it is there.
func (s ContainersSubject) pull(t *testing.T, label string) node.Image {
	t.Helper()
	deadline := time.Now().Add(slow)
	for {
		image, err := s.Images.Pull(t.Context(), node.ImageSpec{Label: label, Reference: s.Reference, User: containerUser})
		expect.NoError(t, err)
		if image.Ready {
			return image
		}
		if time.Now().After(deadline) {
			t.Fatalf("the image isn't there after %s: %+v", slow, image)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// spec is a spec that must be accepted: its image is there.
func (s ContainersSubject) spec(t *testing.T, id string, entrypoint []string) node.ContainerSpec {
	t.Helper()
	s.pull(t, id)
	return node.ContainerSpec{
		ID: id, User: containerUser, Entrypoint: entrypoint, Env: node.Env{"COLOUR": "blue"}, Mounts: []node.MountSpec{},
		Layer: s.Layer(t), Hostname: "host", DNS: []string{"10.1.2.1"}, CPU: 1, Memory: 128 * expect.MiB, Terminal: []string{},
	}
}

// run makes a running container.
func (s ContainersSubject) run(t *testing.T, id string, entrypoint []string) (node.ContainerSpec, node.ContainerInfo) {
	t.Helper()
	spec := s.spec(t, id, entrypoint)
	_, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	info, err := s.Client.Start(t.Context(), id)
	expect.NoError(t, err)
	return spec, info
}

// until waits until holds accepts a container's info.
func (s ContainersSubject) until(t *testing.T, id, what string, holds func(node.ContainerInfo) bool) node.ContainerInfo {
	t.Helper()
	deadline := time.Now().Add(slow)
	for {
		info, err := s.Client.Inspect(t.Context(), id)
		if err == nil && holds(info) {
			return info
		}
		if time.Now().After(deadline) {
			t.Fatalf("container %s isn't %s after %s: %+v (%v)", id, what, slow, info, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// says waits until a container has printed a line.
func (s ContainersSubject) says(t *testing.T, id, line string) {
	t.Helper()
	deadline := time.Now().Add(slow)
	for {
		lines, err := s.Client.Logs(t.Context(), id, 100)
		expect.NoError(t, err)
		for _, l := range lines {
			if l.Text == line && l.At != 0 && (l.Stream == "stdout" || l.Stream == "stderr") {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("container %s didn't say %q within %s: %+v", id, line, slow, lines)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func imagesPull(t *testing.T, s ContainersSubject) {
	if all, err := s.Images.List(t.Context()); err != nil || len(all) != 0 {
		t.Fatalf("images %+v (%v), want none", all, err)
	}
	image := s.pull(t, "1-1")
	if image.Label != "1-1" || image.User != containerUser || image.Reference != s.Reference || !strings.HasPrefix(image.Digest, "sha256:") || image.Size == 0 {
		t.Errorf("image %+v", image)
	}
	if again := s.pull(t, "1-1"); again.Digest != image.Digest {
		t.Errorf("pulled twice, %s became %s", image.Digest, again.Digest)
	}
	s.pull(t, "1-2")
	if all, err := s.Images.List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("images %+v (%v), want those of two labels", all, err)
	}
	if one, err := s.Images.Inspect(t.Context(), "1-2"); err != nil || one.Digest != image.Digest || !one.Ready {
		t.Errorf("image %+v (%v)", one, err)
	}
	if status, err := s.Images.Status(t.Context()); err != nil || status.Images == 0 || status.Size == 0 || status.Total == 0 {
		t.Errorf("status %+v (%v)", status, err)
	}
	expect.NoError(t, s.Images.Release(t.Context(), "1-2"))
	expect.Kind(t, s.Images.Release(t.Context(), "1-2"), node.NotExist)
	_, err := s.Images.Inspect(t.Context(), "1-2")
	expect.Kind(t, err, node.NotExist)
	if one, err := s.Images.Inspect(t.Context(), "1-1"); err != nil || !one.Ready {
		t.Errorf("the other label's image %+v (%v)", one, err)
	}
	_, err = s.Images.Pull(t.Context(), node.ImageSpec{Label: "1-3", Reference: "no such thing", User: containerUser})
	expect.Kind(t, err, node.Invalid)
}

func containersLife(t *testing.T, s ContainersSubject) {
	if all, err := s.Client.List(t.Context()); err != nil || len(all) != 0 {
		t.Fatalf("containers %+v (%v), want none", all, err)
	}
	image := s.pull(t, "1-1")
	spec := s.spec(t, "1-1", s.Serve)
	spec.Mounts = []node.MountSpec{{Volume: "7-1", Source: s.Volume(t), Target: "/data"}}
	made, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	if made.ID != "1-1" || made.User != containerUser || made.Image != image.Digest || made.State != node.ContainerCreated || made.PID != 0 || made.Drift != "" {
		t.Errorf("created: %+v", made)
	}
	if made.Namespace == "" || len(made.Volumes) != 1 || made.Volumes[0] != "7-1" {
		t.Errorf("created with namespace %q and volumes %v", made.Namespace, made.Volumes)
	}
	running, err := s.Client.Start(t.Context(), "1-1")
	expect.NoError(t, err)
	if running.State != node.ContainerRunning || running.PID == 0 || running.Namespace != made.Namespace || running.Restarts != 0 {
		t.Errorf("started: %+v", running)
	}
	all, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(all) != 1 || all[0].ID != "1-1" || all[0].PID != running.PID || all[0].State != node.ContainerRunning {
		t.Errorf("containers %+v", all)
	}
	expect.NoError(t, s.Client.Delete(t.Context(), "1-1"))
	if all, err := s.Client.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("containers %+v (%v), want none", all, err)
	}
	if image, err := s.Images.Inspect(t.Context(), "1-1"); err != nil || !image.Ready {
		t.Errorf("its image went with it: %+v (%v)", image, err)
	}
}
