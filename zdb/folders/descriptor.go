package folders

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

	// LongestName is the maximum length of a namespace's name, in bytes.
	LongestName = 128
)

// Modes of namespaces, and versions of 0-db; see the constants of package zdb.
const (
	ModeUser       = "user"
	ModeSequential = "seq"
	CompatV1       = "v1"
	CompatV2       = "v2"
)

// Descriptor is the settings of a namespace, kept beside its data.
type Descriptor struct {
	// Name and Password are bytes; in the file each is a character of Latin-1, so
	// that ordinary ones can be read there.
	Name     string `json:"name"`
	Password string `json:"password,omitempty"`
	Private  bool   `json:"private,omitempty"`
	Worm     bool   `json:"worm,omitempty"`
	MaxSize  uint64 `json:"max_size,omitempty"`
	Mode     string `json:"mode"`
	// Compat is the version of 0-db whose layout the data has.
	Compat string `json:"compat"`
	// Generation names the folder of the data.
	Generation uint64 `json:"generation"`
}

// descriptorFile is a descriptor on disk: Sum is over Namespace as it is written.
type descriptorFile struct {
	Version   int             `json:"version"`
	Sum       string          `json:"sha256"`
	Namespace json.RawMessage `json:"namespace"`
}

// Write replaces the descriptor in a folder, atomically and durably.
func (d Descriptor) Write(folder string) error {
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

// Read reads the descriptor in a folder, and checks its sum.
func Read(folder string) (Descriptor, error) {
	path := filepath.Join(folder, descriptorName)
	data, err := os.ReadFile(path)
	if err != nil {
		return Descriptor{}, errors.Wrap(err, "cannot read a namespace's descriptor")
	}
	var file descriptorFile
	if err := json.Unmarshal(data, &file); err != nil {
		return Descriptor{}, errors.Wrapf(err, "cannot read %s: it is damaged", path)
	}
	if file.Version != descriptorVersion {
		return Descriptor{}, errors.Errorf("cannot read %s: its version is %d, this zdb knows %d", path, file.Version, descriptorVersion)
	}
	if sum := sha256.Sum256(file.Namespace); hex.EncodeToString(sum[:]) != file.Sum {
		return Descriptor{}, errors.Errorf("cannot read %s: it is damaged, its sum doesn't match", path)
	}
	var d Descriptor
	if err := json.Unmarshal(file.Namespace, &d); err != nil {
		return Descriptor{}, errors.Wrapf(err, "cannot read %s", path)
	}
	d.Name, d.Password = fromLatin1(d.Name), fromLatin1(d.Password)
	return d, errors.Wrapf(d.check(), "cannot read %s", path)
}

func (d Descriptor) check() error {
	switch {
	case d.Name == "" || len(d.Name) > LongestName:
		return errors.Errorf("name has %d bytes, must have 1 to %d", len(d.Name), LongestName)
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
