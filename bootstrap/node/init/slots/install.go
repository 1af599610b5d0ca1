package slots

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/grubenv"
	"github.com/croft-edge/croft/internal/nodeimage"
)

// Source has images: a folder, or a server's.
type Source interface {
	// Open opens a file of the image from a position, in bytes. A source that can't begin there returns its beginning, and false.
	Open(ctx context.Context, name string, from int64) (content io.ReadCloser, there bool, err error)
}

// ErrNothing is returned where there is nothing to install.
var ErrNothing = errors.New("there is no other image to install")

// partial ends the names of files that are being fetched.
const partial = ".part"

// room is what stays free of a boot medium, in bytes.
const room = 1 << 20

// Install fetches the source's image into the other slot and checks all of it. It returns ErrNothing when the source has the running
// image, one that is older, or one whose trial has failed. What was fetched before a failure is kept for the next attempt.
func (m Medium) Install(ctx context.Context, source Source) (nodeimage.Manifest, error) {
	raw, signature, manifest, err := m.offered(ctx, source)
	if err != nil {
		return manifest, err
	}
	other := nodeimage.Other(m.Slot)
	if have, _, err := m.image(other); err == nil && bytes.Equal(have, raw) && m.whole(other, manifest) == nil {
		return manifest, nil // fetched before, and not tried yet
	}
	return manifest, m.change(func() error {
		f := fetcher{folder: m.at(nodeimage.SlotFolder(other)), source: source}
		if err := f.begin(raw, manifest); err != nil {
			return err
		}
		for _, file := range manifest.Files {
			if err := f.fetch(ctx, file); err != nil {
				return err
			}
		}
		if err := m.copyArguments(other); err != nil {
			return err
		}
		return f.finish(raw, signature, manifest)
	})
}

// argumentsFile has a slot's arguments for the kernel's command line, as an environment block of GRUB's.
const argumentsFile = "cmdline"

// copyArguments gives another slot the kernel arguments of the running one, if it has any.
func (m Medium) copyArguments(other string) error {
	block, err := grubenv.Read(filepath.Join(m.at(nodeimage.SlotFolder(m.Slot)), argumentsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	raw, err := block.Encode()
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(m.at(nodeimage.SlotFolder(other)), argumentsFile), raw)
}

// offered reads the manifest of the source's image, and decides whether it is to be installed.
func (m Medium) offered(ctx context.Context, source Source) (raw, signature []byte, manifest nodeimage.Manifest, err error) {
	if raw, err = readSmall(ctx, source, nodeimage.ManifestFile); err != nil {
		return nil, nil, manifest, err
	}
	if m.Key != nil {
		if signature, err = readSmall(ctx, source, nodeimage.SignatureFile); err != nil {
			return nil, nil, manifest, err
		}
		if err := nodeimage.Verify(m.Key, raw, signature); err != nil {
			return nil, nil, manifest, err
		}
	}
	if manifest, err = nodeimage.Decode(raw); err != nil {
		return nil, nil, manifest, err
	}
	running, own, err := m.image(m.Slot)
	if err != nil {
		return nil, nil, manifest, err
	}
	failed, err := m.failed()
	if err != nil {
		return nil, nil, manifest, err
	}
	// An older image is valid for ever: who serves images could bring back its faults.
	if bytes.Equal(running, raw) || manifest.Built < own.Built || slices.Contains(failed, hashOf(raw)) {
		return nil, nil, manifest, ErrNothing
	}
	return raw, signature, manifest, nil
}

func readSmall(ctx context.Context, source Source, name string) ([]byte, error) {
	content, _, err := source.Open(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	raw, err := io.ReadAll(io.LimitReader(content, nodeimage.MostManifest+1))
	if err == nil && len(raw) > nodeimage.MostManifest {
		err = errors.Errorf("it has more than %d bytes", nodeimage.MostManifest)
	}
	return raw, errors.Wrapf(err, "cannot fetch %s", name)
}

// whole checks the files of the image in a slot against its manifest.
func (m Medium) whole(slot string, manifest nodeimage.Manifest) error {
	for _, file := range manifest.Files {
		if err := checkSum(filepath.Join(m.at(nodeimage.SlotFolder(slot)), file.Name), file); err != nil {
			return err
		}
	}
	return nil
}

// fetcher fetches an image into a slot's folder. The folder is no image until it has a manifest, which comes last.
type fetcher struct {
	folder string
	source Source
}

func (f fetcher) at(name string) string { return filepath.Join(f.folder, name) }

// begin empties the slot, unless parts of the same image are there.
func (f fetcher) begin(raw []byte, manifest nodeimage.Manifest) error {
	if err := os.MkdirAll(f.folder, 0o755); err != nil {
		return errors.Wrap(err, "cannot write to the boot medium")
	}
	if have, err := os.ReadFile(f.at(nodeimage.ManifestFile + partial)); err == nil && bytes.Equal(have, raw) {
		return nil
	}
	entries, err := os.ReadDir(f.folder)
	if err != nil {
		return errors.Wrap(err, "cannot read the boot medium")
	}
	// The manifest first: from then on the slot has no image.
	slices.SortFunc(entries, func(a, b os.DirEntry) int {
		return -boolOrder(a.Name() == nodeimage.ManifestFile, b.Name() == nodeimage.ManifestFile)
	})
	for _, e := range entries {
		if err := os.RemoveAll(f.at(e.Name())); err != nil {
			return errors.Wrap(err, "cannot empty a slot of the boot medium")
		}
	}
	if err := f.fits(manifest); err != nil {
		return err
	}
	return writeSynced(f.at(nodeimage.ManifestFile+partial), raw)
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// fits refuses an image that the medium has no room for.
func (f fetcher) fits(manifest nodeimage.Manifest) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(f.folder, &stat); err != nil {
		return errors.Wrap(err, "cannot read the boot medium")
	}
	var size int64
	for _, file := range manifest.Files {
		size += file.Size
	}
	if free := int64(stat.Bavail) * stat.Bsize; size > free-room { //nolint:gosec // a boot medium has no exbibytes
		return errors.Errorf("cannot install image %s: it has %d bytes, and the boot medium has %d free", manifest.Version, size, free)
	}
	return nil
}

// fetch fetches a file, and goes on where an earlier attempt has ended.
func (f fetcher) fetch(ctx context.Context, file nodeimage.File) error {
	part := f.at(file.Name + partial)
	out, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return errors.Wrap(err, "cannot write to the boot medium")
	}
	defer out.Close()
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Wrap(err, "cannot write to the boot medium")
	}
	if have < file.Size {
		if err := f.append(ctx, out, file, have); err != nil {
			return err
		}
	}
	if err := out.Sync(); err != nil {
		return errors.Wrap(err, "cannot write to the boot medium")
	}
	if err := checkSum(part, file); err != nil {
		_ = os.Remove(part) // the next attempt fetches all of it
		return err
	}
	return nil
}

func (f fetcher) append(ctx context.Context, out *os.File, file nodeimage.File, have int64) error {
	content, there, err := f.source.Open(ctx, file.Name, have)
	if err != nil {
		return err
	}
	defer content.Close()
	if !there {
		if err := out.Truncate(0); err != nil {
			return errors.Wrap(err, "cannot write to the boot medium")
		}
		if have, err = out.Seek(0, io.SeekStart); err != nil {
			return errors.Wrap(err, "cannot write to the boot medium")
		}
	}
	n, err := io.Copy(out, io.LimitReader(content, file.Size-have+1))
	if err == nil && have+n != file.Size {
		err = errors.Errorf("it has %d bytes, must have %d", have+n, file.Size)
	}
	return errors.Wrapf(err, "cannot fetch %s", file.Name)
}

// finish gives the files their names, the manifest last.
func (f fetcher) finish(raw, signature []byte, manifest nodeimage.Manifest) error {
	for _, file := range manifest.Files {
		if err := os.Rename(f.at(file.Name+partial), f.at(file.Name)); err != nil {
			return errors.Wrap(err, "cannot write to the boot medium")
		}
	}
	if signature != nil {
		if err := writeSynced(f.at(nodeimage.SignatureFile), signature); err != nil {
			return err
		}
	}
	if err := syncFolder(f.folder); err != nil {
		return err
	}
	if err := replace(f.at(nodeimage.ManifestFile), raw); err != nil {
		return err
	}
	return errors.Wrap(os.Remove(f.at(nodeimage.ManifestFile+partial)), "cannot write to the boot medium")
}

func checkSum(path string, file nodeimage.File) error {
	f, err := os.Open(path)
	if err != nil {
		return errors.Wrapf(err, "cannot check %s", file.Name)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return errors.Wrapf(err, "cannot check %s", file.Name)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); n != file.Size || sum != file.SHA256 {
		return errors.Errorf("cannot use %s: it has %d bytes and SHA-256 %s, must have %d and %s", file.Name, n, sum, file.Size, file.SHA256)
	}
	return nil
}
