package vmimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/fielderror"
	"github.com/croft-edge/croft/pkg/fileid"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/strictjson"
)

// Manifest is the name of the file that describes an image.
const Manifest = "image.json"

// Limits of a manifest.
const (
	// MaxManifest is its size, in bytes.
	MaxManifest = 64 << 10
	// maxArguments is the length of the kernel command line, in bytes: what the node adds fits into the
	// kernel's limit of 2048.
	maxArguments = 1024
)

// Image is the files and the version of an image.
type Image struct {
	Name    string
	Version string
	// Kernel, Initrd and Root are absolute paths; Root is empty where the image has none.
	Kernel    string
	Initrd    string
	Root      string
	Arguments string
}

// document is the manifest.
type document struct {
	Format    int               `json:"format"`
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Kernel    string            `json:"kernel"`
	Initrd    string            `json:"initrd"`
	Root      string            `json:"root,omitempty"`
	Arguments string            `json:"arguments"`
	SHA256    map[string]string `json:"sha256"`
}

// Folder is an image's folder. It is safe for concurrent use.
type Folder struct {
	path string

	mu      sync.Mutex
	checked map[string]identity // of files whose sums were right
}

// identity is a file whose sum was right, and that sum.
type identity struct {
	fileid.ID
	sum string
}

// Description is what a manifest says of an image.
type Description struct {
	Name    string
	Version string
	// Sums are the SHA-256 of the image's files in hexadecimal, by the files' names.
	Sums map[string]string
}

// Describe reads a manifest. node.Invalid.
func Describe(raw []byte) (Description, error) {
	d, err := decode(raw)
	if err != nil {
		return Description{}, node.Errorf(node.Invalid, "cannot use %s: %w", Manifest, err)
	}
	return d.description(), nil
}

func (d document) description() Description {
	out := Description{Name: d.Name, Version: d.Version, Sums: map[string]string{}}
	for _, name := range d.files() {
		out.Sums[name] = d.SHA256[name]
	}
	return out
}

// Open prepares an image's folder, which needn't exist yet. An empty path stands for no image.
func Open(path string) *Folder { return &Folder{path: path, checked: map[string]identity{}} }

// Read returns the image after a check of its files. NotExist for the empty path, Transient without a manifest, which may
// come, Invalid when it is wrong or a file isn't what it says.
func (f *Folder) Read(ctx context.Context) (Image, error) {
	d, err := f.manifest()
	if err != nil {
		return Image{}, err
	}
	for _, name := range d.files() {
		if err := f.check(ctx, name, d.SHA256[name]); err != nil {
			return Image{}, err
		}
	}
	out := Image{
		Name: d.Name, Version: d.Version, Arguments: d.Arguments,
		Kernel: filepath.Join(f.path, d.Kernel), Initrd: filepath.Join(f.path, d.Initrd),
	}
	if d.Root != "" {
		out.Root = filepath.Join(f.path, d.Root)
	}
	return out, nil
}

// Describe reads the manifest alone; no file is looked at. Errors are those of Read.
func (f *Folder) Describe() (Description, error) {
	d, err := f.manifest()
	if err != nil {
		return Description{}, err
	}
	return d.description(), nil
}

func (f *Folder) manifest() (document, error) {
	if f.path == "" {
		return document{}, node.Errorf(node.NotExist, "cannot find an image of virtual machines: the node is given none")
	}
	path := filepath.Join(f.path, Manifest)
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return document{}, node.Errorf(node.Transient, "cannot find an image of virtual machines: there is no %s", path)
	}
	if err != nil {
		return document{}, errors.Wrap(err, "cannot read an image's manifest")
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, MaxManifest+1))
	if err != nil {
		return document{}, errors.Wrap(err, "cannot read an image's manifest")
	}
	d, err := decode(raw)
	if err != nil {
		return document{}, node.Errorf(node.Invalid, "cannot use %s: %w", path, err)
	}
	return d, nil
}

// decode reads a manifest, and checks all that can be checked without the files.
func decode(raw []byte) (document, error) {
	var d document
	if len(raw) > MaxManifest {
		return d, errors.Errorf("it has more than %d bytes", MaxManifest)
	}
	if err := (strictjson.Rules{Bytes: MaxManifest, Folded: true}).Check(raw); err != nil {
		return d, err
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	if err := in.Decode(&d); err != nil {
		return d, err
	}
	return d, d.validate()
}

// files are the names of the image's files.
func (d document) files() []string {
	out := []string{d.Kernel, d.Initrd}
	if d.Root != "" {
		out = append(out, d.Root)
	}
	return out
}

var (
	fileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	label    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$`)
	sum      = regexp.MustCompile(`^[0-9a-f]{64}$`)
	printed  = regexp.MustCompile(`^[ -~]*$`)
)

func (d document) validate() error {
	switch {
	case d.Format != 1:
		return fielderror.New("format", d.Format, "1")
	case !label.MatchString(d.Name):
		return fielderror.New("name", d.Name, "1 to 64 letters, digits, dots, dashes, underscores and plus signs")
	case !label.MatchString(d.Version):
		return fielderror.New("version", d.Version, "1 to 64 letters, digits, dots, dashes, underscores and plus signs")
	case len(d.Arguments) > maxArguments || !printed.MatchString(d.Arguments):
		return fielderror.New("arguments", d.Arguments, "at most %d printed ASCII characters", maxArguments)
	}
	for field, name := range map[string]string{"kernel": d.Kernel, "initrd": d.Initrd, "root": d.Root} {
		if name == "" && field == "root" {
			continue
		}
		if !fileName.MatchString(name) || name == Manifest {
			return fielderror.New(field, name, "the name of a file in the image's folder, beside %s", Manifest)
		}
		if !sum.MatchString(d.SHA256[name]) {
			return fielderror.New("sha256."+name, d.SHA256[name], "64 hexadecimal digits in lower case")
		}
	}
	return nil
}

// check compares a file with its sum, unless it was right before and has not changed since.
func (f *Folder) check(ctx context.Context, name, want string) error {
	path := filepath.Join(f.path, name)
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would be waited for
	if errors.Is(err, os.ErrNotExist) {
		return node.Errorf(node.Invalid, "cannot use the image in %s: %s is missing", f.path, name)
	}
	if err != nil {
		return errors.Wrap(err, "cannot read an image")
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = node.Errorf(node.Invalid, "cannot use %s: it is no regular file", path)
	}
	if err != nil {
		return err
	}
	id, err := fileid.Of(file)
	if err != nil {
		return err
	}
	is := identity{id, want}
	if f.known(name) == is {
		return nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, Within(ctx, file)); err != nil {
		return node.Errorf(node.Transient, "cannot read %s: %w", path, err)
	}
	if have := h.Sum(nil); !slices.Equal(have, decoded(want)) {
		return node.Errorf(node.Invalid, "cannot use the image in %s: the SHA-256 of %s is %s, must be %s", f.path, name, hex.EncodeToString(have), want)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked[name] = is
	return nil
}

// known is the file of that name whose sum was right.
func (f *Folder) known(name string) identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.checked[name]
}

// Within reads from a reader until ctx is done.
func Within(ctx context.Context, from io.Reader) io.Reader { return within{ctx, from} }

type within struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (w within) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.from.Read(p)
}

func decoded(sum string) []byte {
	out, _ := hex.DecodeString(sum) // validated
	return out
}

// Write makes an image of files in a folder: it adds their sums, and writes the manifest last.
func Write(folder string, i Image) error {
	d := document{
		Format: 1, Name: i.Name, Version: i.Version, Kernel: filepath.Base(i.Kernel), Initrd: filepath.Base(i.Initrd), Arguments: i.Arguments,
		SHA256: map[string]string{},
	}
	if i.Root != "" {
		d.Root = filepath.Base(i.Root)
	}
	for _, name := range d.files() {
		s, err := fileid.Sum(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		d.SHA256[name] = s
	}
	if err := d.validate(); err != nil {
		return errors.Wrap(err, "cannot describe an image")
	}
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return errors.Wrap(atomicfile.WriteFile(filepath.Join(folder, Manifest), append(raw, '\n'), 0o644), "cannot write an image's manifest")
}
