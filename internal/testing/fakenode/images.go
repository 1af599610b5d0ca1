package fakenode

import (
	"crypto/sha256"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/node"
)

// ImagePaths is the folder of the node from which images may be taken.
const ImagePaths = "/images/"

// Images is the container module's images, and the registries that have them. It
// implements node.Images.
type Images struct {
	calls *Calls
	mu    sync.Mutex
	have  map[string]*image
	// offered are the images of registries by reference; a registry without any has
	// an image for every reference. known are those pulled so far.
	offered map[string]Content
	known   map[string]Content
	away    bool
	// pace is the progress at which pulls stay, nil when they end at once.
	pace *node.Image
	// auth is the last login that a pull had.
	auth string
	// onRelease is called with the label of a released image, without mu.
	onRelease func(label string)
}

var _ node.Images = (*Images)(nil)

// Content is an image in a registry.
type Content struct {
	Digest string
	// Wrong is whether its bytes don't match its digest.
	Wrong bool
	// Programs are its programs by path. An image without any has all, which run
	// until they are stopped.
	Programs map[string]Program
}

// Program is what a program in an image does.
type Program struct {
	// Says is its output, Exits whether it ends at once, Code its exit code.
	Says  string
	Exits bool
	Code  uint64
}

// image is a label's image, or its pull.
type image struct {
	node.Image
	content Content
	pulling bool
	failed  error
}

// NewImages has no images.
func NewImages(calls *Calls) *Images {
	return &Images{calls: calls, have: map[string]*image{}, offered: map[string]Content{}, known: map[string]Content{}, onRelease: func(string) {}}
}

// Pull implements node.Images.
func (i *Images) Pull(spec node.ImageSpec) (node.Image, error) {
	return answer(i.calls, "Images.Pull", spec.Label, func() (node.Image, error) {
		if err := checkImage(spec); err != nil {
			return node.Image{}, err
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.auth = spec.Auth
		have := i.have[spec.Label]
		if have != nil && have.failed == nil {
			return i.adopt(have, spec)
		}
		content, err := i.fetch(spec.Reference)
		if err != nil {
			if node.KindOf(err).Final() {
				i.have[spec.Label] = &image{failed: err}
			}
			return node.Image{}, err
		}
		have = &image{content: content, pulling: true, Image: node.Image{
			Label: spec.Label, Reference: spec.Reference, User: spec.User, Hash: spec.Hash, Digest: content.Digest, Used: time.Now().Unix(),
		}}
		i.have[spec.Label] = have
		return i.now(have), nil
	})
}

func (i *Images) adopt(have *image, spec node.ImageSpec) (node.Image, error) {
	what := "pull an image for " + spec.Label
	if err := (node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}).Check(what, have.Hash); err != nil {
		return node.Image{}, err
	}
	if have.User != spec.User || have.Reference != spec.Reference {
		return node.Image{}, node.Errorf(node.Exist, "cannot %s: it has %.200q of user %s", what, have.Reference, have.User)
	}
	have.Hash = spec.Hash
	return i.now(have), nil
}

// fetch returns the image of a reference, from the node or a registry.
func (i *Images) fetch(reference string) (Content, error) {
	content, ok := i.offered[reference]
	switch {
	case i.away:
		if content, ok = i.known[reference]; !ok {
			return content, node.Errorf(node.Transient, "cannot pull %s: the registry doesn't answer", reference)
		}
		return content, nil
	case len(i.offered) == 0:
		content = Content{Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(reference)))}
	case !ok:
		return content, node.Errorf(node.Invalid, "cannot pull %s: the registry has none", reference)
	case content.Wrong:
		return content, node.Errorf(node.Refused, "cannot pull %s: its bytes aren't those of its digest", reference)
	}
	i.known[reference] = content
	if at := strings.LastIndex(reference, ":"); at > 0 && !strings.Contains(reference, "@") {
		i.known[reference[:at]+"@"+content.Digest] = content
	}
	return content, nil
}

// now is an image with the present progress of its pull. The caller holds mu.
func (i *Images) now(one *image) node.Image {
	out := one.Image
	if one.pulling && i.pace != nil {
		out.Done, out.Total, out.Unpacking = i.pace.Done, i.pace.Total, i.pace.Unpacking
		return out
	}
	one.pulling = false
	out.Ready, out.Size, out.Done, out.Total = true, 1<<20, 1<<20, 1<<20
	return out
}

func checkImage(spec node.ImageSpec) error {
	if err := checkLabel(spec.Label); err != nil {
		return err
	}
	if !userID.MatchString(spec.User) {
		return node.Errorf(node.Invalid, "cannot pull an image: user %q must be at most 64 letters and digits", clip.Text(spec.User, 100))
	}
	if spec.Auth != "" && !strings.Contains(spec.Auth, ":") {
		return node.Errorf(node.Invalid, "cannot use data.image_auth: it must be user:password")
	}
	docker := reference.MatchString(spec.Reference)
	onNode := strings.HasPrefix(spec.Reference, ImagePaths) && path.Clean(spec.Reference) == spec.Reference && !strings.Contains(spec.Reference, "\x00")
	own := strings.HasPrefix(spec.Reference, node.OwnImage) && spec.User == node.OwnUser
	if len(spec.Reference) > 1000 || !docker && !onNode && !own {
		return node.Errorf(node.Invalid, "cannot use data.flist %q: allowed are docker://HOST/NAME:TAG and paths below %s", clip.Text(spec.Reference, 100), ImagePaths)
	}
	return node.Claim{Hash: spec.Hash}.Valid("pull an image for " + spec.Label)
}

func checkLabel(label string) error {
	if !imageLabel.MatchString(label) {
		return node.Errorf(node.Invalid, "cannot use image label %q: must be at most 64 letters, digits, - and _", clip.Text(label, 100))
	}
	return nil
}

// Inspect implements node.Images.
func (i *Images) Inspect(label string) (node.Image, error) {
	return answer(i.calls, "Images.Inspect", label, func() (node.Image, error) {
		if err := checkLabel(label); err != nil {
			return node.Image{}, err
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		one := i.have[label]
		if one == nil || one.failed != nil {
			return node.Image{}, node.Errorf(node.NotExist, "cannot find an image for %s", label)
		}
		return i.now(one), nil
	})
}

// Release implements node.Images.
func (i *Images) Release(label string) error {
	return carryOut(i.calls, "Images.Release", label, func() error {
		if err := checkLabel(label); err != nil {
			return err
		}
		i.mu.Lock()
		err := drop(i.have, label, "release the image of")
		i.mu.Unlock()
		if err == nil {
			i.onRelease(label)
		}
		return err
	})
}

// List implements node.Images.
func (i *Images) List() ([]node.Image, error) {
	return answer(i.calls, "Images.List", "", func() ([]node.Image, error) {
		out := []node.Image{}
		all := i.All()
		for _, label := range sorted(all) {
			out = append(out, all[label])
		}
		return out, nil
	})
}

// Status implements node.Images.
func (i *Images) Status() (node.ImageStatus, error) {
	return answer(i.calls, "Images.Status", "", func() (node.ImageStatus, error) {
		i.mu.Lock()
		defer i.mu.Unlock()
		digests := map[string]bool{}
		for _, one := range i.have {
			digests[one.Digest] = one.failed == nil && !one.pulling
		}
		delete(digests, "")
		n := uint64(len(digests))
		return node.ImageStatus{Used: n << 20, Total: 1 << 40, Size: n << 20, Images: n}, nil
	})
}

// Offer gives a reference an image, or another one.
func (i *Images) Offer(reference string, content Content) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.offered[reference] = content
}

// Unplug takes the registries away.
func (i *Images) Unplug() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.away = true
}

// Hold keeps pulls at a progress (Done, Total, Unpacking); nil lets them end.
func (i *Images) Hold(progress *node.Image) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pace = progress
}

// Auth is the login of the last pull.
func (i *Images) Auth() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.auth
}

// Put adds images, or replaces those of the same labels, without any check. They
// are ready.
func (i *Images) Put(all ...node.Image) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, one := range all {
		if one.Digest == "" {
			one.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(one.Reference)))
		}
		i.have[one.Label] = &image{Image: one}
	}
}

// All are the images of all labels.
func (i *Images) All() map[string]node.Image {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := map[string]node.Image{}
	for label, one := range i.have {
		if one.failed == nil {
			out[label] = i.now(one)
		}
	}
	return out
}

// ready returns the content of a label's image once it is there.
func (i *Images) ready(label string) (Content, string, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	one := i.have[label]
	if one == nil || one.failed != nil || !i.now(one).Ready {
		return Content{}, "", false
	}
	return one.content, one.Digest, true
}
