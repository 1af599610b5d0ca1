package imagebuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/croft-edge/croft/pkg/fileid"
)

// options make the same bytes of the same content: every file is root's, times are 0, no extended attribute is
// kept.
func (p Packing) options() []string {
	out := []string{
		"-noappend", "-comp", "zstd", "-Xcompression-level", strconv.Itoa(p.Level), "-all-root", "-no-xattrs", "-reproducible",
		"-mkfs-time", "0", "-all-time", "0", "-no-exports", "-no-progress", "-quiet",
	}
	if p.Block != "" {
		out = append(out, "-b", p.Block)
	}
	return out
}

// Packing says how a root folder becomes a file system.
type Packing struct {
	// Cache is the folder of the cache.
	Cache string
	// Level is zstd's, 1 to 22: 9 packs 250 MB in seconds, higher ones save a few percent.
	Level int
	// Block is the size of what is compressed at once, such as 256K; empty for mksquashfs's own, 128K.
	Block string
	Run   Runner
}

// PackRoot is the path of a squashfs file system of the root folder. It is kept in the cache by the hash of what it is
// made from: all paths, modes, targets and contents, the options, and the version of mksquashfs. Others are removed.
func PackRoot(ctx context.Context, r RootFolder, p Packing) (file string, fresh bool, err error) {
	version, err := p.Run(ctx, "", "mksquashfs", "-version")
	if err != nil {
		return "", false, err
	}
	first, _, _ := strings.Cut(string(version), "\n")
	key, err := contentKey(string(r), append(p.options(), first)...)
	if err != nil {
		return "", false, err
	}
	dir := filepath.Join(p.Cache, squashfsFolder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", false, err
	}
	file = filepath.Join(dir, key)
	if _, err := os.Stat(file); err == nil {
		return file, false, keepOnly(dir, key)
	}
	temp, err := os.MkdirTemp(dir, Temporary)
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(temp)
	made := filepath.Join(temp, "root")
	if _, err := p.Run(ctx, "", "mksquashfs", append([]string{string(r), made}, p.options()...)...); err != nil {
		return "", false, err
	}
	if err := os.Chmod(made, 0o644); err != nil {
		return "", false, err
	}
	if err := rename(made, file); err != nil {
		return "", false, err
	}
	return file, true, keepOnly(dir, key)
}

// contentKey is a hash of a folder's content, and of further texts. Times and owners play no part.
func contentKey(dir string, texts ...string) (string, error) {
	h := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(h, "%q\n", text)
	}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case info.Mode().IsRegular():
			content, err = fileid.Sum(name)
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(name)
		case !info.IsDir():
			err = fmt.Errorf("cannot pack %s: it is no file, folder or link", name)
		}
		fmt.Fprintf(h, "%q %v %q\n", at, info.Mode(), content)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
