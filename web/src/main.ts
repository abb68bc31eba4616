import { mount } from "svelte";

import App from "./App.svelte";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/parts.css";
import "./styles/table.css";
import "./styles/form.css";

const target = document.getElementById("page");
if (target) mount(App, { target });
