package zdb

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/atomicfile"
)

const (
	descriptorName    = "namespace"
	descriptorVersion = 1
)

// descriptor is what is kept of a namespace beside its data.
type descriptor struct {
	// Name and Password are bytes; in the file each is a character of Latin-1, so
	// that ordinary ones can be read there.
	Name     string `json:"name"`
	Password string `json:"password,omitempty"`
	Private  bool   `json:"private,omitempty"`
	Worm     bool   `json:"worm,omitempty"`
	MaxSize  uint64 `json:"max_size,omitempty"`
	Mode     string `json:"mode"`
	// Compat is whose layout the data has.
	Compat string `json:"compat"`
	// Generation is the folder of the data.
	Generation uint64 `json:"generation"`
}

// descriptorFile is a descriptor on disk: Sum is over Namespace as it is written.
type descriptorFile struct {
	Version   int             `json:"version"`
	Sum       string          `json:"sha256"`
	Namespace json.RawMessage `json:"namespace"`
}

// write makes d what the folder holds, whole and durable on return. Nothing of
// what was there before is left in the file.
func (d descriptor) write(folder string) error {
	d.Name, d.Password = latin1(d.Name), latin1(d.Password)
	body, err := json.Marshal(d)
	if err != nil {
		return errors.Wrapf(err, "cannot write the descriptor in %s", folder)
	}
	sum := sha256.Sum256(body)
	data, err := json.Marshal(descriptorFile{Version: descriptorVersion, Sum: hex.EncodeToString(sum[:]), Namespace: body})
	if err != nil {
		return errors.Wrapf(err, "cannot write the descriptor in %s", folder)
	}
	return atomicfile.WriteFile(filepath.Join(folder, descriptorName), append(data, '\n'), atomicfile.Mode)
}

// readDescriptor reads what write wrote. What has changed since is an error.
func readDescriptor(folder string) (descriptor, error) {
	path := filepath.Join(folder, descriptorName)
	data, err := os.ReadFile(path)
	if err != nil {
		return descriptor{}, errors.Wrap(err, "cannot read a namespace's descriptor")
	}
	var file descriptorFile
	if err := json.Unmarshal(data, &file); err != nil {
		return descriptor{}, errors.Wrapf(err, "cannot read %s: it is damaged", path)
	}
	if file.Version != descriptorVersion {
		return descriptor{}, errors.Errorf("cannot read %s: its version is %d, this zdb knows %d", path, file.Version, descriptorVersion)
	}
	if sum := sha256.Sum256(file.Namespace); hex.EncodeToString(sum[:]) != file.Sum {
		return descriptor{}, errors.Errorf("cannot read %s: it is damaged, its sum doesn't match", path)
	}
	var d descriptor
	if err := json.Unmarshal(file.Namespace, &d); err != nil {
		return descriptor{}, errors.Wrapf(err, "cannot read %s", path)
	}
	d.Name, d.Password = fromLatin1(d.Name), fromLatin1(d.Password)
	return d, errors.Wrapf(d.check(), "cannot read %s", path)
}

func (d descriptor) check() error {
	switch {
	case d.Name == "" || len(d.Name) > mostName:
		return errors.Errorf("name has %d bytes, must have 1 to %d", len(d.Name), mostName)
	case d.Mode != ModeUser && d.Mode != ModeSequential:
		return errors.Errorf("mode is %q, must be %q or %q", d.Mode, ModeUser, ModeSequential)
	case d.Compat != CompatV1 && d.Compat != CompatV2:
		return errors.Errorf("compat is %q, must be %q or %q", d.Compat, CompatV1, CompatV2)
	}
	return nil
}

// latin1 is s with each byte as the character of that number.
func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

func fromLatin1(s string) string {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		out = append(out, byte(r))
	}
	return string(out)
}
