package imagetest

import (
	"archive/tar"
	"fmt"
	"path"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Builder collects the content of an image. Its methods return it; errors come out of Image, Layout,
// Tar, DockerTar and Push. Paths are absolute paths in the container; their parent folders needn't be
// added.
type Builder struct {
	layers []*layer
	config v1.ConfigFile
	docker bool
}

type layer struct {
	entries []entry
	zstd    bool
	plain   bool
}

type entry struct {
	header  tar.Header
	content []byte
	// make yields the content late, such as a compiled program.
	make func() ([]byte, error)
}

// New returns an image for this machine with one empty layer.
func New() *Builder {
	return &Builder{
		layers: []*layer{{}},
		config: v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}},
	}
}

// Layer begins the next layer: later additions lie above the earlier ones.
func (b *Builder) Layer() *Builder {
	b.layers = append(b.layers, &layer{})
	return b
}

// Zstd compresses the current layer with zstd rather than gzip.
func (b *Builder) Zstd() *Builder {
	b.top().zstd = true
	return b
}

// Plain leaves the current layer uncompressed.
func (b *Builder) Plain() *Builder {
	b.top().plain = true
	return b
}

// Docker gives the image Docker's media types rather than OCI's.
func (b *Builder) Docker() *Builder {
	b.docker = true
	return b
}

// Config changes the image's config: entry point, command, environment, user,
// working folder, stop signal.
func (b *Builder) Config(change func(*v1.Config)) *Builder {
	change(&b.config.Config)
	return b
}

// Platform sets the image's platform.
func (b *Builder) Platform(os, architecture string) *Builder {
	b.config.OS, b.config.Architecture = os, architecture
	return b
}

// Program compiles Go source, which may use only the standard library, to a static program at a path,
// mode 0755.
func (b *Builder) Program(at, source string) *Builder {
	return b.late(at, func() ([]byte, error) { return compile(source) })
}

// Package does the same for the Go program in a folder of this module, or with an import path.
func (b *Builder) Package(at, dir string) *Builder {
	return b.late(at, func() ([]byte, error) { return compilePackage(dir) })
}

func (b *Builder) late(at string, f func() ([]byte, error)) *Builder {
	b.top().entries = append(b.top().entries, entry{header: tar.Header{Typeflag: tar.TypeReg, Name: inside(at), Mode: 0o755}, make: f})
	return b
}

// File adds a file owned by root.
func (b *Builder) File(at, content string, mode int64) *Builder {
	return b.Entry(tar.Header{Typeflag: tar.TypeReg, Name: inside(at), Mode: mode}, []byte(content))
}

// Dir adds a folder owned by root.
func (b *Builder) Dir(at string, mode int64) *Builder {
	return b.Entry(tar.Header{Typeflag: tar.TypeDir, Name: inside(at) + "/", Mode: mode}, nil)
}

// Symlink adds a symbolic link to target.
func (b *Builder) Symlink(at, target string) *Builder {
	return b.Entry(tar.Header{Typeflag: tar.TypeSymlink, Name: inside(at), Linkname: target, Mode: 0o777}, nil)
}

// Device adds a device node, of kind tar.TypeChar or tar.TypeBlock.
func (b *Builder) Device(at string, kind byte, major, minor int64) *Builder {
	return b.Entry(tar.Header{Typeflag: kind, Name: inside(at), Mode: 0o666, Devmajor: major, Devminor: minor}, nil)
}

// Whiteout deletes a path of a lower layer.
func (b *Builder) Whiteout(at string) *Builder {
	return b.File(path.Join(path.Dir(at), ".wh."+path.Base(at)), "", 0)
}

// Opaque hides the whole content of a folder in the lower layers.
func (b *Builder) Opaque(dir string) *Builder {
	return b.File(path.Join(dir, ".wh..wh..opq"), "", 0)
}

// Files adds n empty files to a folder.
func (b *Builder) Files(dir string, n int) *Builder {
	for i := range n {
		b.File(fmt.Sprintf("%s/%d", dir, i), "", 0o644)
	}
	return b
}

// Entry adds any entry as it is; the header's size is set by the content.
func (b *Builder) Entry(header tar.Header, content []byte) *Builder {
	b.top().entries = append(b.top().entries, entry{header: header, content: content})
	return b
}

func (b *Builder) top() *layer { return b.layers[len(b.layers)-1] }

// inside is a path in the form of image tars.
func inside(at string) string { return strings.TrimPrefix(path.Clean("/"+at), "/") }
