package zdb

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/provisioner"
)

// image is the image of zdb containers.
const image = node.OwnImage + "zdb"

// data is the mount point of a zdb container's volume.
const data = "/data"

// running is a zdb container that answers.
type running struct {
	node.ZDBServer
	volume node.Filesystem
}

// reach returns a zdb container that answers. It makes or repairs one that
// doesn't: see raise.
func (p *servers) reach(ctx context.Context, at server, want plan, undo *provisioner.Undo) (running, error) {
	all, err := p.Servers.Servers(ctx)
	if err != nil {
		return running{}, err
	}
	i := slices.IndexFunc(all, func(s node.ZDBServer) bool { return s.Container == at.id() })
	if i < 0 || all[i].Drift != "" {
		return p.raise(ctx, at, want, i >= 0, undo)
	}
	volume, err := p.Storage.InspectFilesystem(ctx, at.id())
	if err != nil && node.KindOf(err) != node.NotExist {
		return running{}, err
	}
	whole, werr := p.whole(ctx, at)
	if err != nil || !whole {
		if werr != nil {
			return running{}, werr
		}
		return p.raise(ctx, at, want, true, undo)
	}
	return running{ZDBServer: all[i], volume: volume}, nil
}

// whole reports whether a zdb container runs as it was made and has its layer.
func (p *servers) whole(ctx context.Context, at server) (bool, error) {
	_, err := p.Storage.InspectFilesystem(ctx, at.layer())
	var box node.ContainerInfo
	if err == nil {
		box, err = p.Containers.Inspect(ctx, at.id())
	}
	if node.KindOf(err) == node.NotExist {
		return false, nil
	}
	return err == nil && faultOf(box) == "", err
}

// raise makes or repairs a zdb container with its image, volume and layer, and
// waits until it answers. It pushes the removal of each new part but the image on
// undo. A new volume has the size for the plan's namespace alone; an empty plan
// makes none: NotExist if it is missing. An attached port (inHand) stays attached.
func (p *servers) raise(ctx context.Context, at server, want plan, inHand bool, undo *provisioner.Undo) (running, error) {
	var none running
	got, err := p.pull(ctx, at)
	if err != nil {
		return none, err
	}
	if !got.Ready {
		return none, node.Errorf(node.Transient, "%s", told(got))
	}
	volume, newVolume, err := p.volume(ctx, at, want, undo)
	if err != nil {
		return none, err
	}
	layer, newLayer, err := p.layer(ctx, at, volume, undo)
	if err != nil {
		return none, err
	}
	_, err = p.Containers.Inspect(ctx, at.id())
	found := err == nil
	switch kind := node.KindOf(err); {
	case err != nil && kind != node.NotExist:
		return none, err
	case found && (newVolume || newLayer):
		// It still uses the old volume or layer, which is gone.
		if err := p.Containers.Delete(ctx, at.id()); err != nil && node.KindOf(err) != node.NotExist {
			return none, err
		}
		found = false
	}
	if !found {
		undo.Push("the zdb container", func(ctx context.Context) error { return p.Containers.Delete(ctx, at.id()) })
	}
	if !inHand {
		undo.Push("its port", func(ctx context.Context) error { return p.Servers.Detach(ctx, at.id()) })
	}
	if _, err := p.Containers.Create(ctx, p.spec(at, volume, layer)); err != nil {
		return none, err
	}
	if _, err := p.Containers.Start(ctx, at.id()); err != nil {
		return none, err
	}
	s, err := p.attach(ctx, node.ZDBServerSpec{Container: at.id(), Mode: at.mode, Data: volume.Path})
	return running{ZDBServer: s, volume: volume}, err
}

// volume makes or finds the file system for the data.
func (p *servers) volume(ctx context.Context, at server, want plan, undo *provisioner.Undo) (fs node.Filesystem, made bool, err error) {
	fs, err = p.Storage.InspectFilesystem(ctx, at.id())
	if node.KindOf(err) != node.NotExist || want.namespace.Name == "" {
		return fs, false, err
	}
	undo.Push("its volume", func(ctx context.Context) error { return p.Storage.ReleaseFilesystem(ctx, at.id()) })
	all, _ := with(nil, want.namespace)
	fs, err = p.Storage.CreateFilesystem(ctx, node.FilesystemSpec{
		Name: at.id(), Size: volumeSize(all), DiskType: want.disk, Pool: at.pool,
	})
	return fs, err == nil, err
}

// layer makes or finds the container's layer, on the same pool as its volume.
func (p *servers) layer(ctx context.Context, at server, volume node.Filesystem, undo *provisioner.Undo) (fs node.Filesystem, made bool, err error) {
	fs, err = p.Storage.InspectFilesystem(ctx, at.layer())
	if node.KindOf(err) != node.NotExist {
		return fs, false, err
	}
	undo.Push("its layer", func(ctx context.Context) error { return p.Storage.ReleaseFilesystem(ctx, at.layer()) })
	fs, err = p.Storage.CreateFilesystem(ctx, node.FilesystemSpec{
		Name: at.layer(), Size: layerSize, DiskType: volume.DiskType, Pool: at.pool,
	})
	return fs, err == nil, err
}

// spec is a zdb container's spec: no network, and no mount but its volume.
func (p *servers) spec(at server, volume, layer node.Filesystem) node.ContainerSpec {
	bytes := func(n uint64) string { return strconv.FormatUint(n, 10) }
	program := []string{
		"/zdb", "--data", data, "--mode", string(at.mode), "--no-listen",
		"--admin-socket", data + "/admin.sock", "--handover", data + "/handover.sock",
		"--memory", bytes(p.Memory / 2), "--max-buffers", bytes(p.Memory / 4),
	}
	if p.Sync {
		program = append(program, "--sync")
	}
	return node.ContainerSpec{
		ID: at.id(), User: node.OwnUser, Hostname: at.id(), Layer: layer.Path, NoCapabilities: true,
		CPU: p.CPU, Memory: p.Memory,
		Mounts: []node.MountSpec{{Volume: at.id(), Source: volume.Path, Target: data}},
		// Half of its memory is for the index of keys, a quarter for data in transit to
		// and from clients; at GOMEMLIMIT the runtime collects harder, before all is used.
		Env:        node.Env{"GOMEMLIMIT": bytes(p.Memory / 8 * 7)},
		Entrypoint: program,
	}
}

// attachPause is the pause between two attempts to attach a starting zdb.
const attachPause = 50 * time.Millisecond

// attach attaches a zdb container to its port once it answers, waiting at most p.Wait.
func (p *servers) attach(ctx context.Context, spec node.ZDBServerSpec) (node.ZDBServer, error) {
	waiting, cancel := context.WithTimeout(ctx, p.Wait)
	defer cancel()
	for {
		s, err := p.Servers.Attach(ctx, spec)
		if node.KindOf(err) != node.Transient {
			return s, err
		}
		select {
		case <-waiting.Done():
			return s, errors.WithMessage(err, "zdb has been waited for")
		case <-time.After(attachPause):
		}
	}
}

// pull gets the image. An image already on the node serves even when zdb's program
// isn't there any more.
func (p *servers) pull(ctx context.Context, at server) (node.Image, error) {
	if got, err := p.Images.Inspect(ctx, at.id()); err == nil && got.Ready {
		return got, nil
	}
	got, err := p.Images.Pull(ctx, node.ImageSpec{Label: at.id(), Reference: image, User: node.OwnUser})
	return got, errors.WithMessage(err, "cannot get zdb's image")
}

// told describes a pull's progress, for people.
func told(i node.Image) string {
	if i.Unpacking {
		return "zdb's image is being unpacked"
	}
	return "zdb's image is being fetched"
}

// clear removes a zdb container with its port, layer, volume and image.
func (p *servers) clear(ctx context.Context, at server) error {
	err := provisioner.EndParts(
		func() error { return p.Servers.Detach(ctx, at.id()) },
		func() error { return p.Containers.Delete(ctx, at.id()) },
		func() error { return p.Storage.ReleaseFilesystem(ctx, at.layer()) },
		func() error { return p.Storage.ReleaseFilesystem(ctx, at.id()) },
		func() error { return p.Images.Release(ctx, at.id()) },
	)
	return errors.Wrapf(err, "cannot take zdb container %s away", at.id())
}
