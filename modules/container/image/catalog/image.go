package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/pkg/node"
)

// The names of our objects in a user's namespace.
const (
	labelPrefix     = "croft.local/label/"
	referencePrefix = "croft.local/reference/"
	leasePrefix     = "croft.pull."
	viewPrefix      = "croft.view."
)

// The keys of their labels.
const (
	keyReservation = "croft.reservation"
	keyHash        = "croft.hash"
	keyUser        = "croft.user"
	keyReference   = "croft.image.reference"
	keySize        = "croft.image.size"
	keyUsed        = "croft.image.used"
	keyReleased    = "croft.image.released"
)

// Image is one image object: a label's, or one that a reference leads to, without a
// Label.
type Image struct {
	name  string
	Label string
	// Hash says whose a label's is, see node.Claim; those of an older croft have none.
	Hash      string
	User      string
	Reference string
	// Target is its manifest.
	Target ocispec.Descriptor
	Size   int64
	used   time.Time
	// Released is set for a label whose container still existed when it was released.
	Released bool
}

// Digest is that of the manifest.
func (i Image) Digest() digest.Digest { return i.Target.Digest }

// Contract is a label's image as the contract describes it.
func (i Image) Contract() node.Image {
	return node.Image{
		Label: i.Label, Reference: i.Reference, User: i.User, Hash: i.Hash, Digest: i.Digest().String(), Size: uint64(i.Size),
		Ready: true, Used: i.used.Unix(),
	}
}

func read(i images.Image) Image {
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(i.Labels[key], 10, 64)
		return n
	}
	return Image{
		name: i.Name, Label: i.Labels[keyReservation], Hash: i.Labels[keyHash], User: i.Labels[keyUser], Reference: i.Labels[keyReference],
		Target: i.Target, Size: number(keySize), used: time.Unix(number(keyUsed), 0), Released: i.Labels[keyReleased] != "",
	}
}

func (i Image) object() images.Image {
	labels := map[string]string{
		keyUser: i.User, keyReference: i.Reference, keySize: strconv.FormatInt(i.Size, 10), keyUsed: strconv.FormatInt(i.used.Unix(), 10),
	}
	if i.Label != "" {
		labels[keyReservation] = i.Label
	}
	if i.Hash != "" {
		labels[keyHash] = i.Hash
	}
	if i.Released {
		labels[keyReleased] = "true"
	}
	return images.Image{Name: i.name, Target: i.Target, Labels: labels}
}

func referenceName(reference string) string {
	sum := sha256.Sum256([]byte(reference))
	return referencePrefix + hex.EncodeToString(sum[:])
}
