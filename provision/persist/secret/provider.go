package secret

import (
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

// MaxSecret is the largest secret, in bytes.
const MaxSecret = 64 << 10

// Provider gives secrets by name.
type Provider interface {
	// Secret returns a secret. NotExist when there is none of that name; Refused when somebody else could read or could have put it
	// there; Invalid for a name that can't be one, and for a secret that is empty or too long.
	Secret(name string) (Value, error)
}

// Folder gives the secrets of a folder: a file each. A file is root's alone: mode 0400 or stricter, no link, and the folder can be
// written by root only.
func Folder(path string) Provider { return folder{path: path, strict: true} }

// CredentialsVariable names systemd's folder of credentials in the environment of a service.
const CredentialsVariable = "CREDENTIALS_DIRECTORY"

// Credentials gives the credentials that systemd hands to a service by LoadCredential= and its like: path is the value of
// $CREDENTIALS_DIRECTORY, empty where there are none. systemd guards who may read them; for its user, a service gets them with a
// mode of its own.
func Credentials(path string) Provider { return folder{path: path} }

// First asks several providers in turn, and gives the first secret there is. An error other than NotExist ends the search: a secret
// that is refused isn't looked for elsewhere.
func First(providers ...Provider) Provider { return first(providers) }

type first []Provider

func (f first) Secret(name string) (Value, error) {
	for _, p := range f {
		v, err := p.Secret(name)
		if node.KindOf(err) != node.NotExist {
			return v, err
		}
	}
	return Value{}, missing(name)
}

func missing(name string) error {
	return node.Errorf(node.NotExist, "cannot get secret %q: there is none of that name", name)
}

// File gives the secret in a file that isn't one of a provider's, such as one that the node has made for itself. The file must be as those of Folder;
// of the folder it asks nothing. Its errors have the kinds of Provider's, and name the file.
func File(path string) (Value, error) { return folder{strict: true}.read(path, path) }

// folder is a folder with a file a secret.
type folder struct {
	path string
	// strict is whether files must be 0400 or stricter.
	strict bool
}

// Secret implements Provider.
func (f folder) Secret(name string) (Value, error) {
	if err := CheckName(name); err != nil {
		return Value{}, err
	}
	if f.path == "" {
		return Value{}, missing(name)
	}
	if err := f.checkFolder(); err != nil {
		return Value{}, about(name, err)
	}
	return f.read(name, filepath.Join(f.path, name))
}

// read reads the secret of that name from a file.
func (f folder) read(name, path string) (Value, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return Value{}, refused(name, "%s is a link: put the file itself there", path)
	}
	if errors.Is(err, unix.ENXIO) { // a socket, which can't be opened
		return Value{}, refused(name, "%s isn't a regular file", path)
	}
	if err != nil {
		return Value{}, about(name, err)
	}
	defer file.Close()
	if err := f.check(name, file); err != nil {
		return Value{}, err
	}
	text, err := io.ReadAll(io.LimitReader(file, MaxSecret+1))
	if err != nil {
		return Value{}, about(name, err)
	}
	if len(text) == 0 || len(text) > MaxSecret {
		return Value{}, node.Errorf(node.Invalid, "cannot get secret %q: %s must have 1 to %d bytes", name, path, MaxSecret)
	}
	return New(text), nil
}

// check refuses a file that others can read or could have put there.
func (f folder) check(name string, file *os.File) error {
	var info unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &info); err != nil {
		return about(name, errors.WithStack(err))
	}
	mode := info.Mode & 0o7777
	switch {
	case info.Mode&unix.S_IFMT != unix.S_IFREG:
		return refused(name, "%s isn't a regular file", file.Name())
	case info.Uid != 0:
		return refused(name, "%s belongs to user %d, and must be root's: chown root: %s", file.Name(), info.Uid, file.Name())
	case f.strict && mode&^0o400 != 0:
		return refused(name, "the mode of %s is %04o, must be 0400 or stricter: chmod 400 %s", file.Name(), mode, file.Name())
	case f.strict && info.Nlink != 1:
		return refused(name, "%s has %d names, must have one: another one may be where others can replace it", file.Name(), info.Nlink)
	}
	return nil
}

// checkFolder refuses a folder to which others than root can add files.
func (f folder) checkFolder() error {
	if !f.strict {
		return nil
	}
	var info unix.Stat_t
	if err := unix.Stat(f.path, &info); err != nil {
		return errors.WithStack(err)
	}
	if info.Uid != 0 || info.Mode&0o022 != 0 {
		return node.Errorf(node.Refused, "folder %s must be root's, and nobody else may write to it: chown root: %s; chmod go-w %s", f.path, f.path, f.path)
	}
	return nil
}

// about is the error of a secret that can't be read.
func about(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return missing(name)
	}
	kind := node.KindOf(err)
	if errors.Is(err, fs.ErrPermission) {
		kind = node.Refused
	}
	return node.Errorf(kind, "cannot get secret %q: %w", name, err)
}

func refused(name, format string, args ...any) error {
	return node.Errorf(node.Refused, "cannot get secret %q: %w", name, errors.Errorf(format, args...))
}

// Sized is a secret of a fixed size in bytes: as it is, or in hexadecimal, with or without a newline at its end. Invalid for any other one; the error
// names it by name and shows nothing of it.
func Sized(name string, v Value, size int) ([]byte, error) {
	if raw := v.Reveal(); len(raw) == size {
		return raw, nil
	}
	if raw, err := hex.DecodeString(v.Text()); err == nil && len(raw) == size {
		return raw, nil
	}
	return nil, node.Errorf(node.Invalid, "cannot use secret %q: it has %d bytes, must be %d bytes as they are, or their %d hexadecimal digits", name, len(v.read()), size, 2*size)
}

// CheckName says what is wrong with the name of a secret. node.Invalid.
func CheckName(name string) error {
	if !validName(name) {
		return node.Errorf(node.Invalid, "cannot get secret %q: a name has 1 to 100 of a-z, A-Z, 0-9, '-', '_' and '.', and doesn't begin with '.'", clip.Text(name, 100))
	}
	return nil
}

func validName(name string) bool {
	if name == "" || len(name) > 100 || name[0] == '.' {
		return false
	}
	for _, c := range []byte(name) {
		if c != '-' && c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
