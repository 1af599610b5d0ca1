// Command program is the content of these tests' images.
package main

import "fmt"

var version = "1"

func main() { fmt.Println("version", version) }
