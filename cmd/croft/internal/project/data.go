package project

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/workload"
)

// fill has the values of references and secrets, which the data holds places for.
type fill struct {
	id func(name string) (string, error)
	// hash gives the hash of a workload's reservation; empty leaves it out.
	hash   func(name string) (string, error)
	secret func(*Secret) (string, error)
	// public gives the public key that belongs to a secret.
	public func(*Secret) (string, error)
}

// Data makes the reservation's data: known has the reservation of each workload
// that it refers to, open gives the text of each secret, seal its sealed box in
// hex.
func (w *Workload) Data(known Targets, open, seal func(*Secret) (string, error)) (json.RawMessage, error) {
	out, err := w.filled(fill{
		id: func(name string) (string, error) {
			target, err := w.target(known, name)
			return target.ID, err
		},
		hash: func(name string) (string, error) {
			target, err := w.target(known, name)
			return target.Hash, err
		},
		secret: seal,
		public: func(s *Secret) (string, error) {
			key, err := s.public(open)
			if err != nil {
				return "", inFile(w.origin.file, err)
			}
			return key, nil
		},
	})
	if err != nil {
		return nil, err
	}
	known.addOutside(out)
	return w.encode(out)
}

// target is the reservation that w's data refers to by a workload's name.
func (w *Workload) target(known Targets, name string) (Target, error) {
	target := known.Workloads[name]
	if target.ID == "" {
		return target, errors.Errorf("cannot make the data of %q: %q has no ID yet", w.Name, name)
	}
	if target.Hash == "" {
		return target, errors.Errorf("cannot make the data of %q: the hash of %q isn't known", w.Name, name)
	}
	return target, nil
}

// Digest is a digest of all that makes the workload another one when it
// changes: node, type, data, and the secrets' text. It is keyed, so that it
// tells nobody without the key whether a guess of a secret is right. IDs and
// hashes that it refers to aren't in it: a volume made anew has a reason of its
// own, and a container whose data was signed without hashes hasn't changed.
func (w *Workload) Digest(key []byte, open func(*Secret) (string, error)) (string, error) {
	out, err := w.filled(fill{
		id:   func(name string) (string, error) { return "workload:" + name, nil },
		hash: func(string) (string, error) { return "", nil },
		secret: func(s *Secret) (string, error) {
			value, err := open(s)
			if err != nil {
				return "", inFile(w.origin.file, err)
			}
			return value, nil
		},
		// It follows from the secret.
		public: func(s *Secret) (string, error) { return "public:" + s.Path, nil },
	})
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(map[string]any{"node": w.Node, "type": w.Type, "data": out})
	if err != nil {
		return "", errors.Wrapf(err, "cannot make the digest of %q", w.Name)
	}
	canonical, err := workload.Canonical(plain)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(canonical)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// filled is the data's tree with everything filled in.
func (w *Workload) filled(with fill) (any, error) { return fillTree(w.body.data, with) }

func fillTree(tree any, with fill) (any, error) {
	switch t := tree.(type) {
	case map[string]any:
		out := make(map[string]any, len(t))
		// In order, so that the same mistake is reported each time.
		for _, k := range slices.Sorted(maps.Keys(t)) {
			v := t[k]
			filled, err := fillTree(v, with)
			if err != nil {
				return nil, err
			}
			if _, hash := v.(*hashRef); hash && filled == "" {
				continue
			}
			out[k] = filled
		}
		return out, nil
	case []any:
		out := make([]any, len(t))
		for i, v := range t {
			filled, err := fillTree(v, with)
			if err != nil {
				return nil, err
			}
			out[i] = filled
		}
		return out, nil
	case *Secret:
		return with.secret(t)
	case publicKey:
		return with.public(t.of)
	case *ref:
		return with.id(t.name)
	case *hashRef:
		return with.hash(t.name)
	}
	return tree, nil
}
