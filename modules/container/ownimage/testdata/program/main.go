// Command program is what images of these tests are made of.
package main

import "fmt"

var version = "1"

func main() { fmt.Println("version", version) }
