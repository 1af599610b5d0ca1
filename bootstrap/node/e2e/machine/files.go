package machine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/croft-edge/croft/internal/grubenv"
)

// Sparse makes an empty disk of that size in bytes.
func Sparse(file string, size int64) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// ISO makes an ISO 9660 file system with that label of a folder.
func ISO(ctx context.Context, file, label, folder string) error {
	return run(ctx, "xorriso", "-as", "mkisofs", "-quiet", "-R", "-V", label, "-o", file, folder)
}

// Foreign makes a disk of that size in bytes with an ext4 file system that has a folder's files.
func Foreign(ctx context.Context, file string, size int64, folder string) error {
	if err := Sparse(file, size); err != nil {
		return err
	}
	return run(ctx, "mkfs.ext4", "-q", "-L", "photos", "-d", folder, file)
}

func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %q: %w: %s", name, args, err, out)
	}
	return nil
}

// Sum is the SHA-256 of a file.
func Sum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

func copyFile(to, from string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return run(context.Background(), "cp", "--sparse=always", "--reflink=auto", from, to)
}

// Copy copies an image to change it.
func Copy(to, from string) error { return copyFile(to, from) }

// AddSettings puts a file onto the third partition of croft.img, which is for a node's settings.
func AddSettings(ctx context.Context, image, file string) error {
	at, err := partition(image, 3)
	if err != nil {
		return err
	}
	return run(ctx, "mcopy", "-o", "-i", at, file, "::")
}

// ReplaceBoot puts a file in the place of the one at a path on the second partition of croft.img, from which the machine boots.
func ReplaceBoot(ctx context.Context, image, path, file string) error {
	at, err := partition(image, 2)
	if err != nil {
		return err
	}
	return run(ctx, "mcopy", "-o", "-i", at, file, "::"+path)
}

// RemoveBoot removes the file at a path on the second partition of croft.img.
func RemoveBoot(ctx context.Context, image, path string) error {
	at, err := partition(image, 2)
	if err != nil {
		return err
	}
	return run(ctx, "mdel", "-i", at, "::"+path)
}

// partition names a partition of croft.img to mtools.
func partition(image string, number int64) (string, error) {
	disk, err := os.Open(image)
	if err != nil {
		return "", err
	}
	defer disk.Close()
	// Its entry in the partition table, which begins at the third sector, has its first sector at byte 32.
	first := make([]byte, 8)
	if _, err := disk.ReadAt(first, 2*512+(number-1)*128+32); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s@@%d", image, binary.LittleEndian.Uint64(first)*512), nil
}

// AddArguments adds arguments for the kernel to an image that GRUB boots, in place: to the variable args of croft.img's grubenv, else to
// the variable cmdline of each slot.
func AddArguments(image, arguments string) error {
	blocks, err := environments(image)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	changed := 0
	for _, name := range []string{"args", "cmdline"} {
		for at, block := range blocks {
			was, has := block.Get(name)
			_, slot := block.Get("slot")
			if !has && !(slot && name == "args") {
				continue
			}
			if err := block.Set(name, string(bytes.TrimSpace([]byte(was+" "+arguments)))); err != nil {
				return err
			}
			raw, err := block.Encode()
			if err != nil {
				return err
			}
			if _, err := f.WriteAt(raw, at); err != nil {
				return err
			}
			changed++
		}
		if changed > 0 {
			return nil
		}
	}
	return fmt.Errorf("cannot add arguments for the kernel to %s: GRUB has no environment block there", image)
}

// environments are GRUB's environment blocks in an image, by their offsets.
func environments(image string) (map[int64]*grubenv.Block, error) {
	f, err := os.Open(image)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const piece = 1 << 20
	out := map[int64]*grubenv.Block{}
	buffer := make([]byte, piece+grubenv.Size)
	for at := int64(0); ; at += piece {
		n, err := f.ReadAt(buffer, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		for i := 0; i < piece && i+grubenv.Size <= n; i += 512 {
			if !bytes.HasPrefix(buffer[i:], []byte("# GRUB Env")) {
				continue
			}
			if block, err := grubenv.Parse(buffer[i : i+grubenv.Size]); err == nil {
				out[at+int64(i)] = block
			}
		}
		if n < len(buffer) {
			return out, nil
		}
	}
}
