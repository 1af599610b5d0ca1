package parts

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/typed"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources"
)

// Image is an image of a container. The ID is its reservation's.
type Image = typed.Resource[ImageSpec, images]

// ImagesType is its type.
const ImagesType = "Images.croft"

// ImageSpec describes it.
type ImageSpec struct {
	node.Image `yaml:",inline"`
}

// DeepCopy implements typed.DeepCopyable.
func (s ImageSpec) DeepCopy() ImageSpec {
	return s
}

// NewImage makes its resource.
func NewImage(i node.Image) *Image {
	r := typed.NewResource[ImageSpec, images](resources.Metadata(resources.Node, "Images", i.Label), ImageSpec{i})
	r.Metadata().Labels().Set(resources.LabelUser, i.User)
	r.Metadata().Labels().Set(resources.LabelWorkload, i.Label)
	return r
}

// images is the type's definition.
type images struct{}

// ResourceDefinition implements typed.Extension.
func (images) ResourceDefinition() meta.ResourceDefinitionSpec {
	return resources.Definition("Images", resources.Node, nil,
		resources.Column{Heading: "REFERENCE", Path: "reference"}, resources.Column{Heading: "SIZE", Path: "size"}, resources.Column{Heading: "DONE", Path: "done"}, resources.Column{Heading: "TOTAL", Path: "total"}, resources.Column{Heading: "READY", Path: "ready"})
}
